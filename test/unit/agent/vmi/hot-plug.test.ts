import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostHook } from '../../../../src/agent/index.ts';
import { type Domain, hotPlugVolumesOf, isVolumeOf, type VirtualMachineInstance } from '../../../../src/api/index.ts';
import { domainOf, key, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { type Loop, startLoop } from './agent-loop.ts';

/** The loop with a hook that plugs as the real one does, on a machine in memory: what is written, when, and in which order. */

interface Machine {
  /** Volumes that the attachment pods have. */
  readonly attached: Set<string>;
  readonly mounted: Set<string>;
  readonly log: string[];
}

function machine(...attached: string[]): Machine {
  return { attached: new Set(attached), mounted: new Set(), log: [] };
}

function hook({ attached, mounted, log }: Machine): HostHook {
  const plug = (vmi: VirtualMachineInstance) => {
    const wanted = hotPlugVolumesOf(vmi).filter(({ isWanted }) => isWanted);
    const missing = wanted.filter(({ name }) => !attached.has(name));
    for (const { name } of wanted) {
      if (attached.has(name) && !mounted.has(name)) log.push(`mount ${name}`);
      if (attached.has(name)) mounted.add(name);
    }
    return missing.map(({ name }) => name);
  };
  return {
    name: 'hotplug-volumes',
    prepare: async ({ vmi }) => {
      const [missing] = plug(vmi);
      return missing ? { kind: 'wait', afterMs: 1_000, because: missing } : { kind: 'done', facts: null };
    },
    adjust: async ({ vmi }) => {
      plug(vmi);
      return { kind: 'done', facts: null };
    },
    settle: async ({ vmi }) => {
      for (const name of [...mounted].filter((each) => !isVolumeOf(vmi, each))) {
        log.push(`unmount ${name}`);
        mounted.delete(name);
      }
      return { kind: 'done', facts: null };
    },
    observe: async () => ({ mountedVolumes: [...mounted] }),
  };
}

const claim = { name: 'late', persistentVolumeClaim: { claimName: 'c', hotpluggable: true } };
const status = { name: 'late', target: '', phase: 'AttachedToNode', hotplugVolume: { attachPodUID: 'hp' } };

function withDisk(domain: Domain): Domain {
  domain.Spec.Devices.Disks = [
    {
      Device: 'disk',
      Type: 'file',
      Source: { Dev: '', File: '/late.img' },
      Target: { Bus: 'scsi', Device: 'sda', Tray: '' },
      Alias: { Name: 'late', UserDefined: true },
    },
  ];
  return domain;
}

const volumeOf = (loop: Loop) => loop.api.stored(key)?.status?.volumeStatus?.find(({ name }) => name === 'late');
const volumeEvents = (loop: Loop) => loop.reasons().filter((reason) => reason.startsWith('Volume'));

function plugIn(loop: Loop): void {
  loop.api.change(key, (vmi) => {
    vmi.spec.volumes = [...(vmi.spec.volumes ?? []), claim];
    vmi.status = { ...vmi.status, volumeStatus: [structuredClone(status)] };
  });
}

async function running(t: { after(fn: () => Promise<void>): void }, on: Machine) {
  const loop = await startLoop(t, ({ hooks }) => void hooks.push(hook(on)));
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  assert.equal(loop.phase(), 'Running');
  return { loop, launcher };
}

test('a volume is mounted, written as mounted, given to the launcher, and Ready when the domain has it, without a wait', async (t) => {
  const on = machine('late');
  const { loop, launcher } = await running(t, on);
  const before = launcher.calls.length;
  plugIn(loop);
  await settle();
  assert.equal(volumeOf(loop)?.phase, 'MountedToPod');
  assert.deepEqual(launcher.calls.slice(before), ['sync', 'sync']);
  loop.launchers.become(launcher, withDisk(domainOf('Running')));
  await settle();
  assert.deepEqual([volumeOf(loop)?.phase, volumeOf(loop)?.target], ['Ready', 'sda']);
  assert.deepEqual(volumeEvents(loop), ['VolumeMountedToPod', 'VolumeReady']);
  assert.deepEqual(on.log, ['mount late']);
});

test('a volume that is late is looked for each second', async (t) => {
  const on = machine();
  const { loop } = await running(t, on);
  plugIn(loop);
  await loop.clock.pass(5_500);
  assert.equal(volumeOf(loop)?.phase, 'AttachedToNode');
  assert.equal(loop.rules().at(-1), 'volume-plug-due');
  on.attached.add('late');
  await loop.clock.pass(2_000);
  assert.equal(volumeOf(loop)?.phase, 'MountedToPod');
});

test('a volume is taken away after the domain has let it go, and not before', async (t) => {
  const on = machine('late');
  const { loop, launcher } = await running(t, on);
  plugIn(loop);
  await settle();
  loop.launchers.become(launcher, withDisk(domainOf('Running')));
  await settle();
  const before = launcher.calls.length;
  loop.api.change(key, (vmi) => {
    vmi.spec.volumes = (vmi.spec.volumes ?? []).filter(({ name }) => name !== 'late');
  });
  await loop.clock.pass(5_000);
  assert.deepEqual(launcher.calls.slice(before), ['sync']);
  assert.equal(loop.rules().at(-1), 'volume-detach-awaited');
  assert.deepEqual([on.log, volumeOf(loop)?.phase], [['mount late'], 'Ready']);
  loop.launchers.become(launcher, domainOf('Running'));
  await settle();
  assert.deepEqual(on.log, ['mount late', 'unmount late']);
  assert.equal(volumeOf(loop)?.phase, 'UnMountedFromPod');
  assert.deepEqual(volumeEvents(loop), ['VolumeMountedToPod', 'VolumeReady', 'VolumeUnMountedFromPod']);
});

test('a start waits for volumes that were plugged before, and for the status that says so', async (t) => {
  const on = machine();
  const loop = await startLoop(t, ({ hooks }) => void hooks.push(hook(on)));
  const launcher = loop.launchers.run(key, uid);
  const vmi = vmiOf('Scheduled', { spec: { domain: {}, volumes: [claim] } });
  loop.api.apply({ ...vmi, status: { ...vmi.status, volumeStatus: [structuredClone(status)] } });
  await loop.clock.pass(10_000);
  assert.deepEqual(launcher.calls, []);
  assert.equal(loop.rules().at(-1), 'start-volumes-awaited');
  on.attached.add('late');
  await loop.clock.pass(2_000);
  assert.equal(loop.phase(), 'Running');
  assert.equal(volumeOf(loop)?.phase, 'MountedToPod');
  assert.deepEqual(launcher.calls, ['sync']);
  assert.deepEqual(loop.reasons(), ['VolumeMountedToPod', 'Created', 'Started']);
});

test('a start that waits for its volumes writes the label of its launcher, without which no pod brings them', async (t) => {
  const on = machine();
  const label = 'system_u:object_r:container_file_t:s0:c1,c2';
  const loop = await startLoop(t, ({ hooks, ports }) => {
    hooks.push(hook(on));
    Object.assign(ports.host, { selinuxContext: (pid: number | undefined) => (pid === undefined ? '' : label) });
  });
  loop.launchers.run(key, uid);
  const vmi = vmiOf('Scheduled', { spec: { domain: {}, volumes: [claim] } });
  const pending = { ...structuredClone(status), phase: 'Pending', hotplugVolume: { attachPodUID: '' } };
  loop.api.apply({ ...vmi, status: { ...vmi.status, volumeStatus: [pending] } });
  await loop.clock.pass(5_000);
  assert.equal(loop.rules().at(-1), 'start-volumes-awaited');
  assert.equal(loop.api.stored(key)?.status?.selinuxContext, label);
});

test('a restart of the agent in the middle ends in the same', async (t) => {
  const on = machine();
  const { loop, launcher } = await running(t, on);
  plugIn(loop);
  await loop.clock.pass(1_000);
  on.attached.add('late');
  await loop.restart();
  await loop.clock.pass(2_000);
  assert.equal(volumeOf(loop)?.phase, 'MountedToPod');
  loop.launchers.become(launcher, withDisk(domainOf('Running')));
  await settle();
  assert.equal(volumeOf(loop)?.phase, 'Ready');
  assert.deepEqual(on.log, ['mount late']);
});

test('a memory dump is ordered when its volume is mounted, once, into the directory of that volume', async (t) => {
  const on = machine('dump');
  const { loop, launcher } = await running(t, on);
  const before = launcher.calls.length;
  loop.api.change(key, (vmi) => {
    const memoryDump = { claimName: 'c', hotpluggable: true };
    vmi.spec.volumes = [...(vmi.spec.volumes ?? []), { name: 'dump', memoryDump }];
    const volume = { ...structuredClone(status), name: 'dump', memoryDumpVolume: { claimName: 'c' } };
    vmi.status = { ...vmi.status, volumeStatus: [volume] };
  });
  await settle();
  const [written] = loop.api.stored(key)?.status?.volumeStatus ?? [];
  assert.equal(written?.phase, 'MemoryDumpInProgress');
  const orders = launcher.calls.slice(before).filter((call) => call.startsWith('dump'));
  assert.match(orders.join(), /^dump \/var\/run\/kubevirt\/hotplug-disks\/dump\/vm1-dump-\d{8}-\d{6}\.memory\.dump$/);
});
