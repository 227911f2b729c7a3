import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DomainSpecInput, VmiStatus } from '../../../../src/api/index.ts';
import { systemClock } from '../../../../src/base/index.ts';
import { memoryChange } from '../../../../src/launcher/domain/index.ts';
import { child, parseXml } from '../../../../src/launcher/domain/xml.ts';
import { DomainLock } from '../../../../src/launcher/lifecycle/index.ts';
import { GuestSize } from '../../../../src/launcher/resize/index.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

const domainXml = '<domain><name>default_small</name></domain>';

async function running(cpuSet: readonly number[]) {
  const hypervisor = new MemoryHypervisor();
  await hypervisor.start(await hypervisor.define(domainXml), { paused: false });
  hypervisor.calls.length = 0;
  const lock = new DomainLock({ maxWaitMs: 1000 }, { clock: systemClock });
  return { hypervisor, size: new GuestSize({ domainName: 'default_small', cpuSet }, { hypervisor, lock }) };
}

const vmiOf = (domain: DomainSpecInput, status: VmiStatus = {}) => ({
  ...launcherVmi({ spec: { domain: { memory: { guest: '64Mi' }, devices: {}, ...domain } } }),
  status: { phase: 'Running' as const, ...status },
});

test('the number of vCPUs is sockets times cores times threads', async () => {
  const { hypervisor, size } = await running([0]);
  await size.setVcpus(vmiOf({ cpu: { sockets: 3, cores: 2 } }), {});
  assert.deepEqual(hypervisor.calls, ['lookup', 'setVcpus 6']);
});

test('new vCPUs of a guest with dedicated CPUs are pinned, and the emulator beside them', async () => {
  const { hypervisor, size } = await running([2, 3, 5]);
  await size.setVcpus(vmiOf({ cpu: { sockets: 2, dedicatedCpuPlacement: true, isolateEmulatorThread: true } }), {});
  assert.deepEqual(hypervisor.calls, ['lookup', 'setVcpus 2', 'pinVcpu 0 2', 'pinVcpu 1 3', 'pinEmulator 5']);
});

test('where the pod has not enough CPUs, no vCPU is plugged in', async () => {
  const { hypervisor, size } = await running([0]);
  const vmi = vmiOf({ cpu: { sockets: 2, dedicatedCpuPlacement: true } });
  await assert.rejects(size.setVcpus(vmi, {}), { code: 'NOT_ENOUGH_CPUS' });
  assert.deepEqual(hypervisor.calls, []);
});

const grown = vmiOf(
  { memory: { guest: '1536Mi', maxGuest: '4Gi' } },
  { memory: { guestAtBoot: '1Gi', guestCurrent: '1Gi', guestRequested: '1Gi' } },
);

test('the first memory that is plugged in brings a virtio-mem device with room for all that may come', () => {
  const { kind, xml } = memoryChange(grown, domainXml);
  assert.equal(kind, 'attach');
  const device = parseXml(xml, 'memory');
  const target = child(device, 'target');
  const texts = target?.children.map(({ name, text, attributes }) => [name, text, attributes.unit]);
  assert.equal(device.attributes.model, 'virtio-mem');
  assert.deepEqual(texts, [
    ['size', String(3 * 2 ** 30), 'b'],
    ['node', '0', undefined],
    ['block', String(2 * 2 ** 20), 'b'],
    ['requested', String(512 * 2 ** 20), 'b'],
  ]);
});

test('later only what the guest is asked to take changes', () => {
  const address = '<address type="pci" bus="0x05"/>';
  const target = '<target><size unit="KiB">3145728</size><node>0</node><block unit="KiB">2048</block>';
  const sizes = '<requested unit="KiB">0</requested><current unit="KiB">0</current></target>';
  const device = `<memory model="virtio-mem">${target}${sizes}<alias name="virtiomem0"/>${address}</memory>`;
  const { kind, xml } = memoryChange(grown, `<domain><devices>${device}</devices></domain>`);
  const changed = parseXml(xml, 'memory');
  const names = child(changed, 'target')?.children.map(({ name, text }) => `${name} ${text}`);
  assert.equal(kind, 'update');
  assert.deepEqual(names, ['size 3145728', 'node 0', 'block 2048', `requested ${512 * 2 ** 20}`]);
  assert.equal(child(changed, 'address')?.attributes.bus, '0x05');
});

const refused: readonly (readonly [string, DomainSpecInput['memory'], VmiStatus, RegExp])[] = [
  ['no room', { guest: '2Gi' }, { memory: { guestAtBoot: '1Gi' } }, /maxGuest/],
  ['an unknown size at start', { guest: '2Gi', maxGuest: '4Gi' }, {}, /guestAtBoot/],
  ['less than at start', { guest: '512Mi', maxGuest: '4Gi' }, { memory: { guestAtBoot: '1Gi' } }, /less than/],
  ['more than there is room for', { guest: '5Gi', maxGuest: '4Gi' }, { memory: { guestAtBoot: '1Gi' } }, /maxGuest/],
  ['part of a block', { guest: '1025Mi', maxGuest: '4Gi' }, { memory: { guestAtBoot: '1Gi' } }, /multiple/],
];

for (const [what, memory, status, message] of refused) {
  test(`memory is refused with its field: ${what}`, () => {
    assert.throws(() => memoryChange(vmiOf({ memory: memory ?? {} }, status), domainXml), {
      code: 'INVALID_FIELD',
      message,
    });
  });
}

test('upstream tests can have memory refused by an annotation', async () => {
  const { size } = await running([0]);
  const annotations = { 'kubevirt.io/func-test-memory-hotplug-fail': '' };
  const vmi = { ...grown, metadata: { ...grown.metadata, annotations } };
  await assert.rejects(size.setMemory(vmi), { message: 'kubevirt.io/func-test-memory-hotplug-fail' });
});
