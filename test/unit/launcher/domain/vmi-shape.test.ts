import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { buildDomainXml, shapedVmi } from '../../../../src/launcher/domain/index.ts';
import { goldenCases } from './cases.ts';

for (const { name, vmi, context } of goldenCases) {
  test(`the shape lets ${name} through as it is`, () => {
    assert.deepEqual(shapedVmi(vmi), vmi);
    assert.equal(buildDomainXml(shapedVmi(vmi), context), buildDomainXml(vmi, context));
  });
}

const shaped = (value: object) => shapedVmi(value as VirtualMachineInstance);
const inDomain = (domain: unknown) => ({ metadata: {}, spec: { domain } });
const inDevices = (devices: unknown) => inDomain({ devices });
const inSpec = (spec: object) => ({ metadata: {}, spec: { domain: {}, ...spec } });
const inStatus = (status: unknown) => ({ ...inDomain({}), status });

for (const [value, message] of [
  [[], 'the VMI: must be an object'],
  [{ spec: { domain: {} } }, 'metadata: is missing'],
  [{ metadata: {}, spec: {} }, 'spec.domain: is missing'],
  [{ ...inDomain({}), metadata: { annotations: 'text' } }, 'metadata.annotations: must be an object'],
  [inDomain('text'), 'spec.domain: must be an object'],
  [inDomain({ cpu: { features: { name: 'a' } } }), 'spec.domain.cpu.features: must be a list'],
  [inDomain({ cpu: { features: [null] } }), 'spec.domain.cpu.features[0]: must be an object'],
  [inDomain({ cpu: { features: [{}] } }), 'spec.domain.cpu.features[0].name: is missing'],
  [inDomain({ machine: { type: 7 } }), 'spec.domain.machine.type: must be a string'],
  [inDomain({ features: { hyperv: { relaxed: true } } }), 'spec.domain.features.hyperv.relaxed: must be an object'],
  [inDomain({ clock: { timer: { rtc: 'on' } } }), 'spec.domain.clock.timer.rtc: must be an object'],
  [inDomain({ memory: { guest: {} } }), 'spec.domain.memory.guest: must be a string or a number'],
  [inDevices({ disks: 'root' }), 'spec.domain.devices.disks: must be a list'],
  [inDevices({ disks: [{ name: 'a', disk: 'vda' }] }), 'spec.domain.devices.disks[0].disk: must be an object'],
  [inDevices({ rng: true }), 'spec.domain.devices.rng: must be an object'],
  [inDevices({ gpus: 'all' }), 'spec.domain.devices.gpus: must be a list'],
  [inSpec({ volumes: {} }), 'spec.volumes: must be a list'],
  [inSpec({ volumes: [{ name: 7 }] }), 'spec.volumes[0].name: must be a string'],
  [
    inSpec({ networks: [{ name: 'a', pod: { vmNetworkCIDR: 10 } }] }),
    'spec.networks[0].pod.vmNetworkCIDR: must be a string',
  ],
  [inSpec({ accessCredentials: [7] }), 'spec.accessCredentials[0]: must be an object'],
  [inStatus({ volumeStatus: 'text' }), 'status.volumeStatus: must be a list'],
  [inStatus({ interfaces: [7] }), 'status.interfaces[0]: must be an object'],
] as const) {
  test(`a VMI of another shape is refused in words: ${message}`, () => {
    assert.throws(() => shaped(value), { code: 'INVALID_FIELD', message });
  });
}

test('a member that is null is one that is not there', () => {
  const { networks, volumes, domain } = shaped(inSpec({ networks: null, volumes: null, domain: { cpu: null } })).spec;
  assert.deepEqual([networks, volumes, domain], [undefined, undefined, {}]);
});
