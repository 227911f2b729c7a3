import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import type { HostHook } from '../../../../../../src/agent/index.ts';
import { OrphanedHostWork, podNetwork } from '../../../../../../src/agent/vmi/host/index.ts';
import { PodInterfaceCache } from '../../../../../../src/agent/vmi/host/network/pod-interface-cache.ts';
import type { VirtualMachineInstance } from '../../../../../../src/api/index.ts';
import { silentLogger } from '../../../../../../src/base/index.ts';
import { key, node, uid, vmiOf } from '../../../../../fixtures/agent/builders.ts';
import { memoryFiles } from '../../../../../fixtures/agent/host-hooks.ts';
import { FakeClock, settle } from '../../../../../fixtures/fake-clock.ts';
import { Machine, requestOf, workOf } from './bench.ts';

interface Known {
  listed?: VirtualMachineInstance;
  found?: VirtualMachineInstance | Error;
  ghost?: boolean;
  domain?: boolean;
  alive?: boolean;
}

/** A VMI was prepared here; a new agent starts and knows `known` of it. */
async function restarted(t: TestContext, known: Known, request = requestOf(), others: readonly HostHook[] = []) {
  const files = memoryFiles();
  const machine = new Machine();
  const hooks = [machine.mountHook('mount'), ...others];
  await workOf(hooks, files).run(request);
  const clock = new FakeClock();
  const orphans = new OrphanedHostWork(
    { nodeName: node },
    {
      work: workOf(hooks, files, clock),
      vmis: { keys: () => (known.listed ? [key] : []), get: () => known.listed },
      ghosts: { byUid: () => (known.ghost ? {} : undefined) },
      domains: {
        keys: () => (known.domain ? [key] : []),
        otherUids: () => (known.domain ? [uid] : []),
        view: () => ({ kind: known.domain ? 'unknown' : 'absent' }),
      },
      lookup: {
        find: async () => {
          if (known.found instanceof Error) throw known.found;
          return known.found;
        },
      },
      isProcessAlive: () => known.alive === true,
      clock,
      log: silentLogger,
    },
  );
  t.after(() => orphans.stop());
  await orphans.start();
  await settle();
  return { machine, files, clock, orphans };
}

test('host work of a VMI that nobody knows any more is released, and its checkpoint goes', async (t) => {
  const { machine, files } = await restarted(t, {});
  assert.deepEqual([[...machine.mounts], [...files.files.keys()]], [[], []]);
});

for (const [why, known] of [
  ['its VMI is listed', { listed: vmiOf() }],
  ['a ghost record tells of it', { ghost: true }],
  ['something is known of its domain', { domain: true }],
  ['its launcher runs', { alive: true }],
  ['the API server has it for this node', { found: vmiOf() }],
  ['the API server does not answer', { found: new Error('away') }],
] as const) {
  test(`host work is left alone while ${why}`, async (t) => {
    const { machine, clock } = await restarted(t, known);
    await clock.pass(900_000);
    assert.deepEqual([...machine.mounts], ['mount 1']);
  });
}

test('host work of a launcher that was never known is left to the next boot', async (t) => {
  const { process: _unknown, ...request } = requestOf();
  const { machine, files } = await restarted(t, {}, request);
  assert.equal(JSON.parse(files.files.get(uid) ?? '').process, undefined);
  assert.deepEqual([...machine.mounts], ['mount 1']);
});

test('it is looked for again, and released when the last one who knew it is gone', async (t) => {
  const known: Known = { alive: true };
  const { machine, clock } = await restarted(t, known);
  known.alive = false;
  await clock.pass(299_000);
  assert.deepEqual([...machine.mounts], ['mount 1']);
  await clock.pass(2_000);
  assert.deepEqual([...machine.mounts], []);
});

test('a VMI of the same name and another UID, and one that is another node’s, keep nothing here', async (t) => {
  for (const found of [
    vmiOf('Running', { metadata: { ...vmiOf().metadata, uid: 'another' } }),
    vmiOf('Running', { metadata: { ...vmiOf().metadata, labels: { 'kubevirt.io/nodeName': 'elsewhere' } } }),
  ]) {
    const { machine } = await restarted(t, { found });
    assert.deepEqual([...machine.mounts], [], `${found.metadata.uid} ${key}`);
  }
});

/** Files of a pod's network, as either agent keeps them: no checkpoint tells of them. */
function networkFiles(t: TestContext) {
  const privateDir = mkdtempSync(path.join(tmpdir(), 'network-files-'));
  t.after(() => rmSync(privateDir, { recursive: true, force: true }));
  const cache = new PodInterfaceCache(privateDir);
  for (const each of [uid, 'another']) cache.write(each, 'default', { podIps: ['10.0.0.7'], state: 'finished' });
  const hook = podNetwork({ privateDir, podIp: '' }) as unknown as HostHook;
  const without: HostHook = { ...hook, prepare: async () => ({ kind: 'done', facts: null }), leaves: () => false };
  return { hook: without, privateDir, left: () => readdirSync(path.join(privateDir, 'network-info-cache')).sort() };
}

test('files of a network go that nobody names, after a second look: a torn ghost record left no other trace', async (t) => {
  const { hook, left } = networkFiles(t);
  const { clock } = await restarted(t, { listed: vmiOf() }, requestOf(), [hook]);
  assert.deepEqual(left(), ['another', uid].sort());
  await clock.pass(301_000);
  assert.deepEqual(left(), [uid]);
  await clock.pass(900_000);
  assert.deepEqual(left(), [uid]);
});

test('whatever lies below the directory of network files goes, and what its links lead to stays', async (t) => {
  const { hook, left, privateDir } = networkFiles(t);
  const at = (...names: string[]) => path.join(privateDir, ...names);
  mkdirSync(at('elsewhere'));
  writeFileSync(at('elsewhere', 'kept'), '');
  mkdirSync(at('network-info-cache', 'deep', 'default', 'inner'), { recursive: true });
  for (const name of ['link', 'deep/link', 'deep/default/inner/link'])
    symlinkSync(at('elsewhere'), at('network-info-cache', name));
  for (const name of ['file', 'x.unusable', 'a\nb', '-rf', '.hidden', '…'])
    writeFileSync(at('network-info-cache', name), '');
  const { clock } = await restarted(t, {}, requestOf(), [hook]);
  await clock.pass(301_000);
  assert.deepEqual([left(), existsSync(at('elsewhere', 'kept'))], [[], true]);
});

test('a disk that fails ends one look, and not the looks after it', async (t) => {
  const { hook, left } = networkFiles(t);
  const { clock, files } = await restarted(t, {}, requestOf(), [hook]);
  const { list } = files;
  let lists = 0;
  // After two for what is recorded, the one before files are removed.
  files.list = async () => {
    if (++lists === 3) throw Object.assign(new Error('EIO: disk'), { code: 'EIO' });
    return list();
  };
  for (let look = 0; look < 3; look++) await clock.pass(301_000);
  assert.deepEqual(left(), []);
});

for (const [why, known] of [
  ['a ghost record', { ghost: true }],
  ['a domain', { domain: true }],
  ['a checkpoint', { alive: true }],
] as const) {
  test(`files of a network stay as long as ${why} names their VMI`, async (t) => {
    const { hook, left } = networkFiles(t);
    const { clock } = await restarted(t, known, requestOf(), [hook]);
    await clock.pass(900_000);
    assert.ok(left().includes(uid));
  });
}
