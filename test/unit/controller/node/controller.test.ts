import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type KubeObject, keyOf, type Pod, type VirtualMachineInstance } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { NodeController } from '../../../../src/controller/node/index.ts';
import { mayRun } from '../../../../src/controller/node/observe.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { ReadYourWrites } from '../../../../src/reconcile/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildRunningPod, buildVmi } from '../builders.ts';

class Cache<T extends KubeObject> {
  readonly synced = true;
  readonly hasSynced = true;
  readonly map = new Map<string, T>();
  readonly listeners = new Set<(key: string) => void>();
  get = (key: string) => this.map.get(key);
  keys = () => this.map.keys();
  onChange = (l: (key: string) => void) => {
    this.listeners.add(l);
    return () => this.listeners.delete(l);
  };
  set(o: T) {
    this.map.set(keyOf(o), o);
    for (const l of this.listeners) l(keyOf(o));
  }
  remove(o: T) {
    this.map.delete(keyOf(o));
    for (const l of this.listeners) l(keyOf(o));
  }
}

async function world(patch?: (type: { kind: string }, name: string) => void) {
  const clock = new FakeClock();
  const vmis = new Cache<VirtualMachineInstance>();
  const pods = new Cache<Pod>();
  const done: string[] = [];
  const node: KubeObject = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: 'node1',
      uid: 'n',
      resourceVersion: '1',
      annotations: { 'kubevirt.io/heartbeat': clock.now().toISOString() },
      labels: { 'kubevirt.io/schedulable': 'true' },
    },
  };
  let shown = node;
  let updated: ((a: KubeObject, b: KubeObject) => void) | undefined;
  const show = (n: KubeObject) => {
    const old = shown;
    shown = n;
    updated?.(old, n);
  };
  const client = {
    get: async () => shown,
    list: async () => ({ items: [...pods.map.values()] }),
    patch: async (type: { kind: string }, { name }: { name: string }) => {
      patch?.(type, name);
      done.push(`${type.kind} ${name}`);
      if (type.kind === 'Node') {
        show({
          ...shown,
          metadata: { ...shown.metadata, resourceVersion: '2', labels: { 'kubevirt.io/schedulable': 'false' } },
        });
        return shown;
      }
      const vmi = [...vmis.map.values()].find((v) => v.metadata.name === name) as VirtualMachineInstance;
      const failed = {
        ...vmi,
        metadata: { ...vmi.metadata, resourceVersion: '99' },
        status: { ...vmi.status, phase: 'Failed' as const },
      };
      vmis.set(failed);
      return failed;
    },
  };
  const overlay = { giveUp: { afterMs: 10_000, clock }, wakeOnEcho: true };
  const controller = new NodeController(
    { workers: 3 },
    {
      client: client as never,
      clock,
      log: silentLogger,
      random: () => 0.5,
      events: {
        record: (o: KubeObject, _: string, reason: string) => void done.push(`event ${o.kind} ${reason}`),
      } as never,
      nodes: {
        get: (k: string) => (k === 'node1' ? shown : undefined),
        keys: () => ['node1'].values(),
        hasSynced: true,
        addHandlers: (h: { updated: typeof updated }) => {
          updated = h.updated;
          return () => undefined;
        },
      } as never,
      vmis: new ReadYourWrites(vmis, overlay),
      ownPods: new ReadYourWrites(pods, overlay),
    },
  );
  await controller.start();
  return { clock, vmis, pods, done, controller };
}

const guest = (name = 'vm1', uid = 'uid-vmi') => buildVmi({}, { phase: 'Scheduled', nodeName: 'node1' }, { name, uid });

test('1: a guest handed over after its agent was given up, and whose pod then goes, fails', async () => {
  const { clock, vmis, pods, done, controller } = await world();
  await clock.pass(310_000);
  assert.ok(done.includes('Node node1'));
  const pod = buildRunningPod();
  pods.set(pod);
  await clock.pass(1000);
  vmis.set(guest());
  await clock.pass(1000);
  pods.remove(pod);
  await clock.pass(3_600_000);
  await controller.stop();
  assert.ok(done.includes('VirtualMachineInstance vm1'), `an hour later: ${done}`);
});

test('1, control: handed over before, it fails', async () => {
  const { clock, vmis, pods, done, controller } = await world();
  const pod = buildRunningPod();
  pods.set(pod);
  vmis.set(guest());
  await clock.pass(310_000);
  pods.remove(pod);
  await clock.pass(3_600_000);
  await controller.stop();
  assert.ok(done.includes('VirtualMachineInstance vm1'), `${done}`);
});

test('2: a VMI that cannot be written costs itself only', async () => {
  const { clock, vmis, done, controller } = await world((type, name) => {
    if (type.kind !== 'Node' && name === 'bad')
      throw new KubeError('FORBIDDEN', 'a webhook says no', { httpStatus: 403 });
  });
  vmis.set(guest('bad', 'uid-bad'));
  vmis.set(guest('good', 'uid-good'));
  await clock.pass(3_600_000);
  await controller.stop();
  assert.ok(done.includes('VirtualMachineInstance good'), `an hour later: ${[...new Set(done)]}`);
});

test('3: no event of a mark that was not made, as the node had changed', async () => {
  const { clock, done, controller } = await world((type) => {
    if (type.kind === 'Node') throw new KubeError('CONFLICT', 'changed', { httpStatus: 409 });
  });
  await clock.pass(305_000);
  await controller.stop();
  assert.deepEqual(done.filter((d) => d.startsWith('event')).length, 0, `${done.length} events in 5 s`);
});

test('4: an annotation does not make a running launcher count as gone', () => {
  const pod = buildRunningPod();
  const marked = {
    ...pod,
    metadata: { ...pod.metadata, annotations: { 'kubevirt.io/ephemeral-provisioning': 'true' } },
  };
  assert.equal(mayRun(marked, guest()), true);
});
