import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Server } from '@grpc/grpc-js';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import type { CloudInitData } from '../../../../src/launcher/disks/index.ts';
import { HookSidecars } from '../../../../src/launcher/hooks/index.ts';
import { type HookPointWish, type SidecarScript, startHookSidecar } from '../../../fixtures/hook-sidecar.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';

const vmi = launcherVmi();
const sleepy = { timeoutMs: 10_000 };
const plain: CloudInitData = {
  kind: 'noCloud',
  metaData: { 'instance-id': 'i' },
  userData: '#cloud-config',
  networkData: 'n',
};

class Pod {
  readonly directory = mkdtempSync('/tmp/hk-');
  readonly #servers: Server[] = [];

  constructor(t: TestContext) {
    t.after(() => {
      for (const server of this.#servers) server.forceShutdown();
      rmSync(this.directory, { recursive: true, force: true });
    });
  }

  async add(directory: string, script: SidecarScript): Promise<void> {
    const server = await startHookSidecar(path.join(this.directory, directory), script);
    this.#servers.push(server);
  }

  sidecars(count: number, timeoutMs = sleepy.timeoutMs): HookSidecars {
    return new HookSidecars({ directory: this.directory, count, timeoutMs }, { clock: systemClock, log: silentLogger });
  }
}

const append = (word: string) => (xml: string) => `${xml}${word}`;

for (const version of ['v1alpha1', 'v1alpha2', 'v1alpha3']) {
  test(`a sidecar that speaks ${version} changes the domain`, async (t) => {
    const pod = new Pod(t);
    await pod.add('a', { name: 'one', versions: [version], domain: append('!') });
    const sidecars = pod.sidecars(1);
    await sidecars.collect();
    assert.equal(await sidecars.domain('<domain/>', vmi), '<domain/>!');
  });
}

test('each is given what the one before made, those with the highest priority first, then by name', async (t) => {
  const pod = new Pod(t);
  await pod.add('a', { name: 'b', domain: append('b') });
  await pod.add('b', { name: 'a', domain: append('a'), points: [['OnDefineDomain', 0]] });
  await pod.add('c', { name: 'z', domain: append('z'), points: [['OnDefineDomain', 5]] });
  await pod.add('d', { name: 'silent', points: [] });
  const sidecars = pod.sidecars(4);
  await sidecars.collect();
  assert.equal(await sidecars.domain('', vmi), 'zab');
});

test('sidecars with sockets of the same name are two, and what is no socket is none', async (t) => {
  const pod = new Pod(t);
  await pod.add('a', { name: 'a', domain: append('a') });
  mkdirSync(path.join(pod.directory, 'b'));
  writeFileSync(path.join(pod.directory, 'b/file'), '');
  symlinkSync('../a/hook.sock', path.join(pod.directory, 'b/link'));
  writeFileSync(path.join(pod.directory, 'stray'), '');
  const sidecars = pod.sidecars(2);
  const collected = sidecars.collect();
  await pod.add('c', { name: 'c', domain: append('c') });
  await collected;
  assert.equal(await sidecars.domain('', vmi), 'ac');
});

test('one that does not come in time is told with how many did', async (t) => {
  const pod = new Pod(t);
  await pod.add('a', { name: 'one' });
  const message = /of 2 hook sidecars 1 answered in time \(one\)/;
  await assert.rejects(pod.sidecars(2, 0).collect(), { code: 'HOOK_FAILED', message });
});

test('one that listens and does not answer at first is asked again', async (t) => {
  const pod = new Pod(t);
  await pod.add('a', { name: 'slow', silentTimes: 1, domain: append('slow') });
  const sidecars = pod.sidecars(1);
  await sidecars.collect();
  assert.equal(await sidecars.domain('', vmi), 'slow');
});

test('one that speaks another version is refused with both', async (t) => {
  const pod = new Pod(t);
  await pod.add('a', { name: 'new', versions: ['v2'] });
  const message = /hook sidecar new speaks v2, this launcher v1alpha3, v1alpha2, v1alpha1/;
  await assert.rejects(pod.sidecars(1).collect(), { code: 'NOT_SUPPORTED', message });
});

test('a sidecar that fails, or gives nothing back, keeps the guest from starting, in words', async (t) => {
  const pod = new Pod(t);
  await pod.add('a', { name: 'broken' });
  const sidecars = pod.sidecars(1);
  await sidecars.collect();
  const failed = {
    code: 'HOOK_FAILED',
    message: /hook sidecar broken: OnDefineDomain: .*it broke.*log of its container/,
  };
  await assert.rejects(sidecars.domain('<domain/>', vmi), failed);
  const other = new Pod(t);
  await other.add('a', { name: 'empty', domain: () => '' });
  const empty = other.sidecars(1);
  await empty.collect();
  await assert.rejects(empty.domain('<domain/>', vmi), { code: 'HOOK_FAILED', message: /empty gave back no domain/ });
});

const points: HookPointWish[] = [['PreCloudInitIso', 0]];

test('cloud-init data go through the first sidecar that wants them, in the new message or in the old one', async (t) => {
  const pod = new Pod(t);
  const userData = 'changed';
  await pod.add('a', {
    name: 'a',
    points,
    cloudInit: ({ data }) => ({ data: JSON.stringify({ ...JSON.parse(data), UserData: userData }) }),
  });
  await pod.add('b', { name: 'b', points, cloudInit: () => assert.fail('a second one was asked') });
  const sidecars = pod.sidecars(2);
  await sidecars.collect();
  assert.equal(sidecars.changesCloudInit, true);
  assert.deepEqual(await sidecars.cloudInit(plain, vmi), { ...plain, userData });
  const old = new Pod(t);
  await old.add('a', {
    name: 'a',
    versions: ['v1alpha2'],
    points,
    cloudInit: ({ source }) => ({ data: '{}', source: JSON.stringify({ ...JSON.parse(source), userData }) }),
  });
  const older = old.sidecars(1);
  await older.collect();
  assert.deepEqual(await older.cloudInit(plain, vmi), { ...plain, userData });
});

test('cloud-init data that make no sense are refused', async (t) => {
  const pod = new Pod(t);
  await pod.add('a', { name: 'a', points, cloudInit: () => ({ data: '{', source: '[]' }) });
  const sidecars = pod.sidecars(1);
  await sidecars.collect();
  await assert.rejects(sidecars.cloudInit(plain, vmi), {
    code: 'HOOK_FAILED',
    message: /gave back no cloud-init data/,
  });
});

test('the end of the guest is told to all that want it, whatever one of them says', async (t) => {
  const pod = new Pod(t);
  const told: string[] = [];
  const shutdown: HookPointWish[] = [['Shutdown', 0]];
  await pod.add('a', { name: 'a', points: shutdown, onShutdown: () => told.push('a') });
  await pod.add('b', { name: 'b', points: shutdown, onShutdown: () => told.push('b') });
  await pod.add('c', { name: 'c', versions: ['v1alpha2'], points: shutdown, onShutdown: () => told.push('c') });
  const sidecars = pod.sidecars(3);
  await sidecars.collect();
  await sidecars.shutdown(new AbortController().signal);
  assert.deepEqual(told, ['a', 'b']);
});

test('a sidecar that hangs at the end of the guest is left when the launcher has to go, and so are those after it', async (t) => {
  const pod = new Pod(t);
  const [told, ending]: [string[], AbortController] = [[], new AbortController()];
  const shutdown: HookPointWish[] = [['Shutdown', 0]];
  await pod.add('a', { name: 'a', points: shutdown, hangs: true, onShutdown: () => ending.abort(new Error('late')) });
  await pod.add('b', { name: 'b', points: shutdown, onShutdown: () => told.push('b') });
  const sidecars = pod.sidecars(2);
  await sidecars.collect();
  const beganMs = performance.now();
  await sidecars.shutdown(ending.signal);
  assert.ok(performance.now() - beganMs < 30_000);
  assert.deepEqual(told, []);
});

test('a VMI that wants sidecars in a pod without any is refused', async (t) => {
  const sidecars = new Pod(t).sidecars(0);
  await sidecars.collect();
  const wanting = { ...vmi, metadata: { ...vmi.metadata, annotations: { 'hooks.kubevirt.io/hookSidecars': '[]' } } };
  await assert.rejects(sidecars.domain('<domain/>', wanting), {
    code: 'NOT_SUPPORTED',
    message: /this launcher's pod has no sidecars/,
  });
  assert.equal(await sidecars.domain('<domain/>', vmi), '<domain/>');
});
