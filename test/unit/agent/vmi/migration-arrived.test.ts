import assert from 'node:assert/strict';
import { test } from 'node:test';
import { domainOf, key, uid } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { startLoop } from './agent-loop.ts';
import { arrive, countOf, incoming, labelsOf, messages, nodeLabel, prepared, stateOf, stored } from './incoming.ts';

test('a finalisation that fails is tried again, and the guest’s own end does not wait for it', async (t) => {
  const { loop, launcher } = await prepared(t);
  launcher.refusals.finalize = Array(50).fill('busy');
  await arrive({ loop, launcher });
  assert.equal(stateOf(loop).completed, undefined);
  assert.match(loop.condition('Synchronized')?.message ?? '', /busy/);
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown', { UID: uid }));
  await settle();
  assert.equal(loop.phase(), 'Succeeded');
});

test('CPUs and memory that waited for the larger pod are plugged in once, and what was wanted is written', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  const vmi = incoming();
  const domain = { ...vmi.spec.domain, cpu: { sockets: 2, cores: 1, threads: 1 }, memory: { guest: '2Gi' } };
  vmi.spec = { ...vmi.spec, domain };
  Object.assign(vmi.metadata.labels ?? {}, {
    'kubevirt.io/vmi-pod-memory-resource-requests': '2400Mi',
    'kubevirt.io/memory-hotplug-overhead-ratio': '1.0',
  });
  const hot = ['HotVCPUChange', 'HotMemoryChange', 'VolumesChange', 'MigrationRequired'];
  vmi.status = {
    ...vmi.status,
    conditions: hot.map((type) => ({ type, status: 'True' })),
    migratedVolumes: [{ volumeName: 'root' }],
    memory: { guestRequested: '1Gi', guestAtBoot: '1Gi' },
  };
  loop.api.apply(vmi);
  await settle();
  await arrive({ loop, launcher });
  assert.deepEqual(launcher.calls, ['sync-target', 'sync-cpus', 'sync-memory', 'finalize', 'sync']);
  const status = stored(loop)?.status;
  assert.deepEqual(status?.currentCPUTopology, { sockets: 2, cores: 1, threads: 1 });
  assert.equal(status?.memory?.guestRequested, '2Gi');
  assert.equal(status?.memory?.guestAtBoot, '1Gi');
  assert.equal(status?.migratedVolumes, undefined);
  assert.deepEqual(
    hot.filter((type) => loop.condition(type)),
    [],
  );
  assert.deepEqual(Object.keys(labelsOf(loop)), [nodeLabel]);
});

test('CPUs that cannot be plugged in are told by condition and event, and no migration after the other tries it again', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.refusals['sync-cpus'] = ['no such vcpu'];
  const vmi = incoming();
  vmi.spec = { ...vmi.spec, domain: { ...vmi.spec.domain, cpu: { sockets: 2, cores: 1, threads: 1 } } };
  vmi.status = { ...vmi.status, conditions: [{ type: 'HotVCPUChange', status: 'True' }] };
  loop.api.apply(vmi);
  await settle();
  await arrive({ loop, launcher });
  const { status, reason } = loop.condition('HotVCPUChangeFailed') ?? {};
  assert.deepEqual({ status, reason }, { status: 'True', reason: 'CPU Hotplug Failed' });
  assert.equal(loop.condition('HotVCPUChange'), undefined, 'upstream’s controller would wait for it for ever');
  assert.match(messages(loop, 'HotPlugFailed').join(), /failed to change vCPUs: .*no such vcpu/);
  assert.equal(stored(loop)?.status?.currentCPUTopology, undefined);
  assert.equal(stateOf(loop).completed, true);
});

test('memory that cannot be plugged in is told by condition and event, and the migration is over all the same', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.refusals['sync-memory'] = ['no slot'];
  const vmi = incoming();
  vmi.spec = { ...vmi.spec, domain: { ...vmi.spec.domain, memory: { guest: '2Gi' } } };
  Object.assign(vmi.metadata.labels ?? {}, { 'kubevirt.io/vmi-pod-memory-resource-requests': '3Gi' });
  vmi.status = { ...vmi.status, conditions: [{ type: 'HotMemoryChange', status: 'True' }] };
  loop.api.apply(vmi);
  await settle();
  await arrive({ loop, launcher });
  const { status, reason, message } = loop.condition('HotMemoryChange') ?? {};
  assert.deepEqual(
    { status, reason, message },
    {
      status: 'False',
      reason: 'Memory Hotplug Failed',
      message: 'memory hotplug failed, the VM configuration is not supported',
    },
  );
  assert.equal(messages(loop, 'HotPlugFailed').length, 1);
  assert.equal(stateOf(loop).completed, true);
});

test('memory that the pod has no room for is never asked of the launcher', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  const vmi = incoming();
  vmi.spec = { ...vmi.spec, domain: { ...vmi.spec.domain, memory: { guest: '2Gi' } } };
  Object.assign(vmi.metadata.labels ?? {}, { 'kubevirt.io/vmi-pod-memory-resource-requests': '1Gi' });
  vmi.status = { ...vmi.status, conditions: [{ type: 'HotMemoryChange', status: 'True' }] };
  loop.api.apply(vmi);
  await settle();
  await arrive({ loop, launcher });
  assert.equal(countOf(launcher, 'sync-memory'), 0);
  assert.equal(loop.condition('HotMemoryChange'), undefined);
  assert.match(messages(loop, 'HotPlugFailed')[0] ?? '', /the pod has/);
});
