import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Devices, VmiSpec } from '../../../../src/api/index.ts';
import { claimedDevice, claimRequests, metadataDirOf, shapedVmi } from '../../../../src/launcher/domain/index.ts';
import { vmiWith } from './cases.ts';

const request = { field: 'spec.domain.devices.gpus[g]', claimName: 'c', requestName: 'r' };
const v1alpha1 = 'metadata.resource.k8s.io/v1alpha1';
const v1beta1 = 'metadata.resource.k8s.io/v1beta1';
const uuid = '5f5f7b4a-1111-4a6b-9a0c-0c5a7a0e0001';
const bus = { 'resource.kubernetes.io/pciBusID': { string: '0000:65:00.0' } };

function metadata(devices: unknown, apiVersion: unknown = v1alpha1, name = 'r'): string {
  return JSON.stringify({ apiVersion, kind: 'DeviceMetadata', requests: [{ name: 'other' }, { name, devices }] });
}
const one = (attributes: unknown) => metadata([{ driver: 'd', name: 'n', attributes }]);

const read: readonly (readonly [what: string, text: string, kind: string, address: string])[] = [
  ['a PCI device', one(bus), 'pci', '0000:65:00.0'],
  ['a mediated device', one({ mdevUUID: { string: uuid } }), 'mdev', uuid],
  ['a mediated device with the address of its parent', one({ ...bus, mdevUUID: { string: uuid } }), 'mdev', uuid],
  ['a mediated device without a name', one({ ...bus, mdevUUID: { string: '' } }), 'pci', '0000:65:00.0'],
  [
    'the version that is known, after a newer one',
    `${metadata(7, 'metadata.x/v9')}\n${one(bus)}`,
    'pci',
    '0000:65:00.0',
  ],
  ['the version of Kubernetes 1.37', metadata([{ attributes: bus }], v1beta1), 'pci', '0000:65:00.0'],
  [
    'an alternative of a prioritized list',
    metadata([{ attributes: bus }], v1beta1, 'r/high-memory'),
    'pci',
    '0000:65:00.0',
  ],
  ['nothing of what comes after it', `${one(bus)} {"apiVersion"`, 'pci', '0000:65:00.0'],
  ['braces and quotes in texts', `{"apiVersion":"v9","a":"}\\"{"}${one(bus)}`, 'pci', '0000:65:00.0'],
];
for (const [what, text, kind, address] of read) {
  test(`what a driver told of a claim is read: ${what}`, () => {
    assert.deepEqual(claimedDevice(text, request), { kind, addresses: [address] });
  });
}

const refused: readonly (readonly [what: string, text: string, message: RegExp, code?: string])[] = [
  ['nothing', ' \n', /is empty: look at the driver/],
  ['no JSON', '{"apiVersion":', /is no JSON/],
  ['a closing brace', '}', /is no JSON/],
  ['a list', '[]', /has no apiVersion/],
  ['another kind of version', metadata([], 7), /has no apiVersion/],
  [
    'unknown versions alone',
    metadata([], 'a/v9') + metadata([], 'a/v8'),
    /is of versions a\/v9, a\/v8, and .*v1alpha1, .*v1beta1 are known/,
  ],
  [
    'a thousand unknown versions',
    metadata([], 'a/v9').repeat(1000),
    /is of versions (?:a\/v9, ){7}a\/v9 and 992 more, and/,
  ],
  ['another request', metadata([], v1alpha1, 'x'), /says nothing of the request r/],
  ['another prioritized list', metadata([], v1alpha1, 'rr/r'), /says nothing of the request r/],
  ['no device', metadata([]), /has no device for the request r/],
  ['a device that is none', metadata([7]), /has no device for the request r/],
  ['two devices', metadata([{}, {}]), /the request r got 2 devices: .* count 1/, 'INVALID_FIELD'],
  ['no attributes', metadata([{}]), /has neither mdevUUID nor resource.kubernetes.io\/pciBusID/],
  ['an attribute that is no text', one({ mdevUUID: { int: 7 } }), /has neither/],
  ['another address', one({ 'resource.kubernetes.io/pciBusID': { string: '65:00.0' } }), /has "65:00.0" as .*pciBusID/],
  ['markup', one({ mdevUUID: { string: '"/><x y="' } }), /as mdevUUID/],
];
for (const [what, text, message, code = 'BAD_DEVICE'] of refused) {
  test(`what a driver told of a claim is refused, with the field: ${what}`, () => {
    assert.throws(() => claimedDevice(text, request), { code, message: /^spec\.domain\.devices\.gpus\[g\]: / });
    assert.throws(() => claimedDevice(text, request), { message });
  });
}

function vmi(devices: Devices, spec: Partial<VmiSpec> = {}) {
  const resourceClaims = [
    { name: 'named', resourceClaimName: 'mine' },
    { name: 'made', resourceClaimTemplateName: 'template' },
  ];
  return shapedVmi(vmiWith({ devices }, { resourceClaims, ...spec }));
}
const dirs = (...given: Parameters<typeof vmi>) => {
  const wanted = vmi(...given);
  return claimRequests(wanted).map((each) => metadataDirOf(wanted, each));
};

test('a claim is found by its own name, one of a template by that of its entry', () => {
  const devices = {
    gpus: [{ name: 'g', claimName: 'named', requestName: 'r' }],
    hostDevices: [
      { name: 'h', claimName: 'made', requestName: 's' },
      { name: 'i', deviceName: 'a/b' },
    ],
  };
  assert.deepEqual(dirs(devices), ['resourceclaimtemplates/made/s', 'resourceclaims/mine/r']);
});

test('of networks those that are devices of the machine are looked for', () => {
  const interfaces = [
    { name: 'a', sriov: {} },
    { name: 'b', binding: { name: 'x' } },
    { name: 'c', sriov: {}, state: 'absent' as const },
  ];
  const networks = ['a', 'b', 'c'].map((name) => ({ name, resourceClaim: { claimName: 'named', requestName: name } }));
  assert.deepEqual(dirs({ interfaces }, { networks }), ['resourceclaims/mine/a']);
});

test('a device whose claim has no name is one of a device plug-in', () => {
  assert.deepEqual(dirs({ gpus: [{ name: 'g', deviceName: 'vendor.com/a', claimName: '' }] }), []);
});

const wrong: readonly (readonly [what: string, message: RegExp, device: object, spec?: object])[] = [
  ['no request', /gpus\[g\]\.requestName: is missing/, { claimName: 'made' }],
  ['no claim', /gpus\[g\]\.claimName: is missing/, { claimName: '', requestName: 'r' }],
  ['a claim that is not listed', /spec\.resourceClaims has no lost/, { claimName: 'lost', requestName: 'r' }],
  ['a request that is a path', /"\.\.\/r" is no name/, { claimName: 'made', requestName: '../r' }],
  [
    'a claim that is a path',
    /"\.\.\/x" is no name/,
    { claimName: 'c', requestName: 'r' },
    { resourceClaims: [{ name: 'c', resourceClaimName: '../x' }] },
  ],
  ['a claim of dots', /"\.\." is no name/, { claimName: 'c', requestName: '..' }, { resourceClaims: [{ name: 'c' }] }],
];
for (const [what, message, device, spec] of wrong) {
  test(`a device of a claim is refused before a file is looked for: ${what}`, () => {
    assert.throws(() => dirs({ gpus: [{ name: 'g', ...device }] }, spec), { code: 'INVALID_FIELD', message });
  });
}
