import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HookContext, HostHook } from '../../../../src/agent/index.ts';
import { HostError } from '../../../../src/agent/vmi/host/index.ts';
import { domainOf, key, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { prepared } from '../../../fixtures/agent/host-hooks.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { startLoop, startRunning } from './agent-loop.ts';
import { incoming } from './incoming.ts';

/** Gives an interface its attachment, as the pod's network will. */
const network = (seen: string[] = []): HostHook => ({
  name: 'network',
  readFacts: (kept) => (kept === 'managed' ? kept : undefined),
  prepare: async ({ purpose, state }: HookContext) => {
    seen.push(`${purpose} ${state.stage}`);
    return { kind: 'done', facts: 'managed', summary: 'tap0' };
  },
  adjust: async ({ purpose, state }: HookContext) => {
    seen.push(`${purpose} ${state.stage}`);
    return { kind: 'done', facts: 'managed' };
  },
  syncOptions: () => ({ interfaceDomainAttachment: { default: 'tap' }, preallocatedVolumes: ['root'] }),
  release: async ({ stage }) => void seen.push(`release ${stage}`),
});

test('what a hook gives goes with the very next call to the launcher, and is no reason for another', async (t) => {
  const loop = await startLoop(t, ({ hooks }) => void hooks.push(network()));
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(60_000);
  assert.deepEqual(launcher.calls, ['sync']);
  const [options] = loop.launchers.syncOptions;
  assert.deepEqual(options?.interfaceDomainAttachment, { default: 'tap' });
  assert.deepEqual(options?.preallocatedVolumes, ['root']);
});

test('a restart of the agent keeps what hooks gave and how far they came; the end of the VMI releases it and its file', async (t) => {
  const seen: string[] = [];
  const loop = await startLoop(t, ({ hooks }) => void hooks.push(network(seen)));
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  assert.deepEqual([...loop.checkpoints.files.keys()], [uid]);
  await loop.restart();
  await settle();
  assert.deepEqual(loop.launchers.syncOptions.at(-1)?.interfaceDomainAttachment, { default: 'tap' });
  const [first] = loop.dispatcher.reconciler.decisions.of(key);
  assert.deepEqual(first?.seen.hostWork, { network: '"managed"' });
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await loop.clock.pass(1_000);
  assert.equal(loop.phase(), 'Succeeded');
  assert.deepEqual(seen, ['start undefined', 'running done', 'release done']);
  assert.deepEqual([...loop.checkpoints.files.keys()], []);
});

test('host work of a VMI that vanished while the agent was away is released from its checkpoint', async (t) => {
  const seen: string[] = [];
  const loop = await startLoop(t, ({ hooks }) => void hooks.push(network(seen)));
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  await loop.dispatcher.stop();
  launcher.mode = 'dead';
  loop.api.remove(key);
  await loop.restart();
  await loop.clock.pass(60_000);
  assert.equal(seen.at(-1), 'release done');
  assert.deepEqual([...loop.checkpoints.files.keys()], []);
});

test('each hook has a line of its own below its step, with what it gave or why not', async (t) => {
  const { loop } = await startRunning(t);
  const refusing: HostHook = {
    name: 'disks',
    prepare: async () => {
      throw new HostError('DISK_TOO_LARGE', 'too large');
    },
  };
  loop.hooks.unshift(network());
  loop.hooks.push(refusing);
  const other = { namespace: 'default', name: 'vm2', uid: 'other', labels: vmiOf().metadata.labels };
  loop.launchers.run('default/vm2', 'other');
  loop.api.apply(vmiOf('Scheduled', { metadata: { ...vmiOf().metadata, ...other } as never }));
  await settle();
  const start = loop.dispatcher.reconciler.decisions.of('default/vm2').find(({ rule }) => rule === 'start-due');
  const step = start?.steps.find(({ step: name }) => name === 'prepareHost');
  assert.equal(step?.because, 'DISK_TOO_LARGE: too large');
  assert.deepEqual(
    step?.parts?.map(({ tookMs, ...part }) => ({ ...part, isTimed: tookMs !== undefined })),
    [
      { step: 'network', outcome: 'done', gave: 'tap0', isTimed: true },
      { step: 'first', outcome: 'done', isTimed: true },
      { step: 'second', outcome: 'done', isTimed: true },
      { step: 'disks', outcome: 'failed', because: 'DISK_TOO_LARGE: too large', isTimed: true },
    ],
  );
});

test('a hook that waits holds the start back for as long as it says, without a failure and with its events', async (t) => {
  let isReady = false;
  const event = { type: 'Normal', reason: 'Waiting', message: 'no socket yet' } as const;
  const loop = await startLoop(t, ({ hooks }) => {
    hooks.push({
      name: 'waits',
      prepare: async () =>
        isReady ? prepared : { kind: 'wait', afterMs: 1_000, because: 'no socket yet', events: [event] },
    });
  });
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(5_000);
  assert.deepEqual(launcher.calls, []);
  assert.equal(loop.condition('Synchronized'), undefined);
  assert.deepEqual(loop.reasons(), ['Waiting']);
  isReady = true;
  await loop.clock.pass(5_000);
  assert.equal(loop.phase(), 'Running');
});

test('a hook that comes not back holds up its own VMI for its own deadline, and a later try goes through', async (t) => {
  let calls = 0;
  const loop = await startLoop(t, ({ hooks }) => {
    hooks.push({
      name: 'hangs once',
      deadlineMs: 60_000,
      prepare: ({ signal }) =>
        ++calls > 1
          ? Promise.resolve(prepared)
          : new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    });
  });
  loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(59_000);
  assert.equal(calls, 1, 'longer than other steps may take');
  await loop.clock.pass(20_000);
  assert.deepEqual([calls, loop.phase()], [2, 'Running']);
  assert.match(
    loop.events.find(({ reason }) => reason === 'SyncFailed')?.message ?? '',
    /hangs once has not ended within 60 s/,
  );
});

test('hooks of a guest that comes from another node see the claims that it has here', async (t) => {
  const seen: unknown[] = [];
  const loop = await startLoop(t, ({ hooks }) => {
    hooks.push({
      name: 'disks',
      prepare: async ({ purpose, vmi }) => {
        seen.push(purpose, vmi.spec.volumes?.[0]?.hostDisk?.capacity);
        return prepared;
      },
    });
  });
  const launcher = loop.launchers.run(key, uid);
  const vmi = incoming();
  const claim = (storage: string) => ({ capacity: { storage }, requests: { storage } });
  vmi.spec = { ...vmi.spec, volumes: [{ name: 'root', persistentVolumeClaim: { claimName: 'old' } }] };
  vmi.status = {
    ...vmi.status,
    volumeStatus: [{ name: 'root', target: '', persistentVolumeClaimInfo: claim('1Gi') }],
    migratedVolumes: [{ volumeName: 'root', destinationPVCInfo: claim('2Gi') }],
  };
  loop.api.apply(vmi);
  await settle();
  assert.deepEqual(launcher.calls, ['sync-target']);
  assert.deepEqual(seen, ['incoming', '2Gi']);
});

test('a guest whose threads can never be placed is resumed, told of once, and tried again ever more seldom', async (t) => {
  const { loop, launcher } = await startRunning(t);
  let tries = 0;
  const limits: HostHook = {
    name: 'limits',
    prepare: async () => ({ kind: 'done', facts: { isPlaced: false } }),
    adjust: async () => ({ kind: 'done', facts: { isPlaced: false } }),
    settle: async () => {
      tries++;
      return { kind: 'done', facts: { isPlaced: false, unplaced: 'the cgroup is refused' } };
    },
  };
  loop.hooks.push(limits);
  const before = launcher.calls.length;
  loop.launchers.become(launcher, domainOf('Paused', 'User'));
  const domain = { devices: {}, cpu: { dedicatedCpuPlacement: true, isolateEmulatorThread: true } };
  loop.api.apply(vmiOf('Running', { spec: { domain } }));
  await loop.clock.pass(10_000);
  assert.ok(launcher.calls.slice(before).includes('sync'), `the launcher was told to resume it: ${launcher.calls}`);
  const synchronized = loop.api.get(key)?.status?.conditions?.find(({ type }) => type === 'Synchronized');
  assert.match(synchronized?.message ?? '', /threads of the guest .*: the cgroup is refused/);
  assert.equal(loop.events.filter(({ reason }) => reason === 'SyncFailed').length, 1);
  assert.ok(tries >= 3 && tries <= 5, `${tries} tries within 10 s`);
  await loop.clock.pass(600_000);
  assert.ok(tries <= 15, `${tries} tries within 10 minutes`);
});
