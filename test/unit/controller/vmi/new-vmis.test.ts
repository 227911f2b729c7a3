import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finalizers, type VirtualMachineInstance } from '../../../../src/api/index.ts';
import { NewVmis } from '../../../../src/controller/vmi/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildConfig } from '../builders.ts';

const vmiOf = (spec: VirtualMachineInstance['spec']): VirtualMachineInstance => ({
  ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name: 'a', namespace: 'default' } },
  spec: structuredClone(spec),
  status: { virtualMachineRevisionName: 'revision' },
});
const raw = () => vmiOf({ domain: { memory: { guest: '128Mi' } } });
const newVmis = () => new NewVmis({ config: buildConfig, clock: new FakeClock(), randomUuid: () => 'a-uuid' });

/** As virt-api's webhook leaves what it gets. */
function byWebhook(sent: VirtualMachineInstance): VirtualMachineInstance {
  const made = structuredClone(sent);
  const { phaseTransitionTimestamps: stamps = [] } = made.status ?? {};
  const stamp = { phase: 'Pending', phaseTransitionTimestamp: '2026-01-01T00:00:00Z' } as const;
  made.metadata.finalizers = [...(made.metadata.finalizers ?? []), finalizers.vmi];
  made.status = { ...made.status, phase: 'Pending', phaseTransitionTimestamps: [...stamps, stamp] };
  return made;
}

test('where nobody admits VMIs, each but the first is sent with finalizer, defaults and first phase', () => {
  const vmis = newVmis();
  const first = vmis.prepare(raw());
  assert.deepEqual(first, raw(), 'it is not known yet');
  vmis.learn(first, structuredClone(first));
  const second = vmis.prepare(raw());
  assert.deepEqual(second.metadata.finalizers, [finalizers.vmi]);
  assert.equal(second.spec.domain.firmware?.uuid, 'a-uuid');
  const { phase, phaseTransitionTimestamps, virtualMachineRevisionName } = second.status ?? {};
  assert.deepEqual([phase, virtualMachineRevisionName], ['Pending', 'revision']);
  assert.deepEqual(
    phaseTransitionTimestamps?.map((stamp) => stamp.phase),
    ['Pending'],
  );
  vmis.learn(second, structuredClone(second));
  assert.equal(vmis.prepare(raw()).status?.phase, 'Pending', 'the answer to an admitted one changes nothing');
});

test("what a webhook admits is left to it, with what it takes from the cluster's configuration", () => {
  const vmis = newVmis();
  const sent = vmis.prepare(raw());
  vmis.learn(sent, byWebhook(sent));
  assert.deepEqual(vmis.prepare(raw()), raw());
});

test('a webhook that comes later is seen by what it does twice, once', () => {
  const vmis = newVmis();
  const first = vmis.prepare(raw());
  vmis.learn(first, structuredClone(first));
  const second = vmis.prepare(raw());
  vmis.learn(second, byWebhook(second));
  assert.deepEqual(vmis.prepare(raw()), raw());
});

test('a VMI that cannot start is sent as it is: its own controller says why', () => {
  const vmis = newVmis();
  const first = vmis.prepare(raw());
  vmis.learn(first, structuredClone(first));
  assert.equal(vmis.prepare(vmiOf({ domain: {} })).status?.phase, undefined);
});
