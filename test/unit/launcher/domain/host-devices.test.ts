import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Devices, Interface } from '../../../../src/api/index.ts';
import { type AskedDevice, shareOutDevices } from '../../../../src/launcher/domain/given-devices.ts';
import {
  buildDomainXml,
  type ConvertError,
  networkPciAddresses,
  shapedVmi,
} from '../../../../src/launcher/domain/index.ts';
import { childrenOf, parseXml, type XmlNode } from '../../../../src/launcher/domain/xml.ts';
import { contextWith, lean, twoCells, vmiWith } from './cases.ts';

const environment = {
  PCI_RESOURCE_VENDOR_COM_GPU: '0000:65:00.0',
  PCI_RESOURCE_VENDOR_COM_CARD: '0000:81:01.0,0000:81:01.1',
  PCI_RESOURCE_OTHER_COM_CARD: '0000:81:01.1,0000:82:00.0',
  MDEV_PCI_RESOURCE_VENDOR_COM_VGPU: '5f5f7b4a-1111-4a6b-9a0c-0c5a7a0e0001,5f5f7b4a-2222-4a6b-9a0c-0c5a7a0e0002',
  USB_RESOURCE_VENDOR_COM_KEY: '3:12',
  USB_RESOURCE_VENDOR_COM_DESK: '1:4,1:5,2:6,2:7',
};

const asked = (...resources: string[]): AskedDevice[] =>
  resources.map((resource, index) => ({ field: `device ${index}`, resource }));

const addressesOf = (resources: string[], given: Record<string, string> = environment) =>
  shareOutDevices(asked(...resources), given).map(({ addresses }) => addresses);

test('each device gets one that the pod has of its resource, in their order', () => {
  assert.deepEqual(addressesOf(['vendor.com/card', 'vendor.com/gpu', 'vendor.com/card']), [
    ['0000:81:01.0'],
    ['0000:65:00.0'],
    ['0000:81:01.1'],
  ]);
});

test('a device that the pod has under two names goes to the guest once', () => {
  assert.deepEqual(addressesOf(['vendor.com/card', 'vendor.com/card', 'other.com/card']), [
    ['0000:81:01.0'],
    ['0000:81:01.1'],
    ['0000:82:00.0'],
  ]);
});

test('USB devices that one resource gives out together stay together', () => {
  assert.deepEqual(addressesOf(['vendor.com/desk', 'vendor.com/desk']), [
    ['1:4', '1:5'],
    ['2:6', '2:7'],
  ]);
  assert.deepEqual(addressesOf(['vendor.com/key']), [['3:12']]);
});

const refusals: readonly (readonly [
  what: string,
  code: string,
  resources: string[],
  given?: Record<string, string>,
])[] = [
  ['a resource of which the pod has nothing', 'MISSING_DEVICE', ['vendor.com/none']],
  ['more devices than the pod has', 'MISSING_DEVICE', ['vendor.com/gpu', 'vendor.com/gpu']],
  [
    'another resource of the same device',
    'MISSING_DEVICE',
    ['vendor.com/gpu', 'a/b'],
    { PCI_RESOURCE_A_B: '0000:65:00.0', ...environment },
  ],
  [
    'the same address twice in a list',
    'MISSING_DEVICE',
    ['a/b', 'a/b'],
    { PCI_RESOURCE_A_B: '0000:65:00.0,0000:65:00.0' },
  ],
  ['an empty list', 'BAD_DEVICE', ['a/b'], { PCI_RESOURCE_A_B: '' }],
  ['a list with a hole', 'BAD_DEVICE', ['a/b'], { PCI_RESOURCE_A_B: '0000:65:00.0,,0000:66:00.0' }],
  ['an address without its domain', 'BAD_DEVICE', ['a/b'], { PCI_RESOURCE_A_B: '65:00.0' }],
  ['a slot that PCI does not have', 'BAD_DEVICE', ['a/b'], { PCI_RESOURCE_A_B: '0000:65:20.0' }],
  ['a function that PCI does not have', 'BAD_DEVICE', ['a/b'], { PCI_RESOURCE_A_B: '0000:65:00.8' }],
  ['markup', 'BAD_DEVICE', ['a/b'], { MDEV_PCI_RESOURCE_A_B: '"/><x y="' }],
  ['a path', 'BAD_DEVICE', ['a/b'], { MDEV_PCI_RESOURCE_A_B: '../../etc' }],
  ['a USB device without a bus', 'BAD_DEVICE', ['a/b'], { USB_RESOURCE_A_B: '12' }],
  ['a negative USB device', 'BAD_DEVICE', ['a/b'], { USB_RESOURCE_A_B: '-1:2' }],
  ['a resource of two kinds', 'BAD_DEVICE', ['a/b'], { PCI_RESOURCE_A_B: '0000:65:00.0', USB_RESOURCE_A_B: '1:2' }],
];

for (const [what, code, resources, given] of refusals) {
  test(`the start is refused, with the resource: ${what}`, () => {
    assert.throws(
      () => addressesOf(resources, given),
      (error: ConvertError) => error.code === code && error.message.includes(resources.at(-1) ?? ''),
    );
  });
}

function hostdevs(devices: Devices, more: Parameters<typeof contextWith>[0] = {}, networks: string[] = []): XmlNode[] {
  const spec = { networks: networks.map((name) => ({ name, multus: { networkName: name } })) };
  const vmi = shapedVmi(vmiWith({ devices: { ...lean, ...devices } }, spec));
  const xml = buildDomainXml(vmi, contextWith({ deviceEnvironment: environment, network: 'tap', ...more }));
  return parseXml(xml, 'domain').children.flatMap((node) => childrenOf(node, 'hostdev'));
}

const names = (nodes: readonly XmlNode[]) => nodes.map((node) => childrenOf(node, 'alias')[0]?.attributes.name);

test('a device of the list of GPUs and one of the other list never are the same', () => {
  const card = { name: 'x', deviceName: 'vendor.com/card' };
  const nodes = hostdevs({ hostDevices: [card], gpus: [card] });
  assert.deepEqual(names(nodes), ['ua-hostdevice-x', 'ua-gpu-x']);
  const functions = nodes.map((node) => node.children[0]?.children[0]?.attributes.function);
  assert.deepEqual(functions, ['0x0', '0x1']);
  const twice = {
    hostDevices: [{ ...card, deviceName: 'vendor.com/gpu' }],
    gpus: [{ ...card, deviceName: 'vendor.com/gpu' }],
  };
  assert.throws(() => hostdevs(twice), { code: 'MISSING_DEVICE' });
});

test('two VMs see their own devices only, whatever the other has', () => {
  const gpus = [{ name: 'g', deviceName: 'vendor.com/gpu' }];
  const busOf = (address: string) => {
    const [node] = hostdevs({ gpus }, { deviceEnvironment: { PCI_RESOURCE_VENDOR_COM_GPU: address } });
    return node?.children[0]?.children[0]?.attributes.bus;
  };
  assert.deepEqual([busOf('0000:65:00.0'), busOf('0000:66:00.0')], ['0x65', '0x66']);
});

const vgpu = (display?: object) => ({
  gpus: [{ name: 'g', deviceName: 'vendor.com/vgpu', virtualGPUOptions: { display } }],
});
const displayOf = (devices: object, hasScreen = true) =>
  hostdevs({ ...devices, autoattachGraphicsDevice: hasScreen }).map(({ attributes }) => [
    attributes.display,
    attributes.ramfb,
  ]);

test('the first mediated GPU is the screen, unless the VMI says otherwise or has none', () => {
  assert.deepEqual(displayOf(vgpu()), [['on', 'on']]);
  assert.deepEqual(displayOf(vgpu(), false), [[undefined, undefined]]);
  assert.deepEqual(displayOf(vgpu({ enabled: false })), [[undefined, undefined]]);
  assert.deepEqual(displayOf(vgpu({ ramFB: { enabled: false } })), [['on', undefined]]);
  assert.throws(() => displayOf(vgpu({ enabled: true }), false), /display: needs autoattachGraphicsDevice/);
});

const refusedDevices: readonly (readonly [string, RegExp, Devices])[] = [
  [
    'two of one name',
    /hostDevices\[x\]: there are two of this name/,
    { hostDevices: ['x', 'x'].map((name) => ({ name, deviceName: 'vendor.com/card' })) },
  ],
  ['no resource', /hostDevices\[x\]\.deviceName: is missing/, { hostDevices: [{ name: 'x' }] }],
  [
    'a claim that nobody told of',
    /gpus\[x\]: nothing is known of c\/r of spec\.resourceClaims/,
    { gpus: [{ name: 'x', claimName: 'c', requestName: 'r' }] },
  ],
  [
    'a plug-in and a claim',
    /gpus\[x\]: has deviceName and claimName/,
    { gpus: [{ name: 'x', deviceName: 'vendor.com/gpu', claimName: 'c', requestName: 'r' }] },
  ],
  [
    'a GPU on USB',
    /gpus\[x\]: vendor.com\/key are USB devices/,
    { gpus: [{ name: 'x', deviceName: 'vendor.com/key' }] },
  ],
  ['a name that no alias has', /a b.* may only have/, { gpus: [{ name: 'a b', deviceName: 'vendor.com/gpu' }] }],
];

for (const [what, message, devices] of refusedDevices) {
  test(`a device of the machine is refused in words: ${what}`, () => {
    assert.throws(() => hostdevs(devices), { message });
  });
}

const networkAddresses = new Map([
  ['blue', '0000:04:02.5'],
  ['red', '0000:04:02.5'],
  ['odd', 'eth7'],
]);
const sriov = (more: Partial<Interface> = {}): Interface => ({ name: 'blue', sriov: {}, ...more });
const sriovNodes = (...interfaces: Interface[]) =>
  hostdevs(
    { interfaces },
    { networkAddresses },
    interfaces.map(({ name }) => name),
  );

test('a network that is a device of the machine is passed through, with its place in the guest and in the order of boots', () => {
  const [node] = sriovNodes(sriov({ bootOrder: 2, pciAddress: '0000:00:09.0' }));
  assert.deepEqual(
    node?.children.map(({ name, attributes }) => [name, attributes.order ?? attributes.slot ?? attributes.name]),
    [
      ['source', undefined],
      ['boot', '2'],
      ['alias', 'ua-sriov-blue'],
      ['address', '0x09'],
    ],
  );
  assert.deepEqual(sriovNodes(sriov({ state: 'absent' })), []);
});

const refusedNetworks: readonly (readonly [string, RegExp, Interface[]])[] = [
  [
    'no device yet',
    /interfaces\[green\]: .*network-info of the pod has no PCI device for this network yet/,
    [sriov({ name: 'green' })],
  ],
  ['a device that is no PCI device', /interfaces\[odd\]: the network plug-in gave "eth7"/, [sriov({ name: 'odd' })]],
  [
    'a device of two networks',
    /interfaces\[red\]: .* got, 0000:04:02.5, is that of .*interfaces\[blue\]/,
    [sriov(), sriov({ name: 'red' })],
  ],
  ['a link that is down', /interfaces\[blue\]\.state: down is not possible/, [sriov({ state: 'down' })]],
  ['an ACPI index', /acpiIndex: is not possible/, [sriov({ acpiIndex: 7 })]],
  ['a bad place in the guest', /pciAddress: "9" is no PCI address/, [sriov({ pciAddress: '9' })]],
  ['a second binding', /interfaces\[blue\]: has bridge and sriov/, [sriov({ bridge: {} })]],
];

for (const [what, message, interfaces] of refusedNetworks) {
  test(`a network with sriov is refused in words: ${what}`, () => {
    assert.throws(() => sriovNodes(...interfaces), { message });
  });
}

const claimed = (...addresses: readonly string[]) =>
  new Map(addresses.map((address, index) => [`c${index}/r`, { kind: 'pci' as const, addresses: [address] }]));
const ofClaim = (name: string, index: number) => ({ name, claimName: `c${index}`, requestName: 'r' });

const shared: readonly (readonly [string, RegExp, Devices, string[]])[] = [
  [
    'two claims',
    /gpus\[b\]: the device that it got, 0000:AF:00\.0, is that of spec\.domain\.devices\.hostDevices\[a\]: /,
    { hostDevices: [ofClaim('a', 0)], gpus: [ofClaim('b', 1)] },
    ['0000:af:00.0', '0000:AF:00.0'],
  ],
  [
    'one request twice',
    /gpus\[b\]: .* that of .*gpus\[a\]/,
    { gpus: [ofClaim('a', 0), ofClaim('b', 0)] },
    ['0000:af:00.0'],
  ],
  [
    'a claim and a device plug-in',
    /gpus\[b\]: .* that of .*gpus\[a\]/,
    { gpus: [{ name: 'a', deviceName: 'vendor.com/gpu' }, ofClaim('b', 0)] },
    ['0000:65:00.0'],
  ],
  [
    'a claim and a network',
    /interfaces\[blue\]: .* that of .*gpus\[a\]/,
    { gpus: [ofClaim('a', 0)], interfaces: [sriov()] },
    ['0000:04:02.5'],
  ],
];

for (const [what, message, devices, addresses] of shared) {
  test(`one device that the guest would get twice is refused before there is a domain: ${what}`, () => {
    const claimedDevices = claimed(...addresses);
    const networks = (devices.interfaces ?? []).map(({ name }) => name);
    const made = () => hostdevs(devices, { networkAddresses, claimedDevices }, networks);
    assert.throws(made, { code: 'BAD_DEVICE', message });
  });
}

test('PCI addresses are read from what the network plug-ins told, and nothing else is taken for them', () => {
  const pci = (address: unknown) => ({ deviceInfo: { type: 'pci', pci: { 'pci-address': address } } });
  const text = JSON.stringify({
    interfaces: [
      { network: 'a', ...pci('0000:04:02.5') },
      { network: 'b', mac: 'x' },
      { network: 'c', ...pci(7) },
    ],
  });
  assert.deepEqual([...networkPciAddresses(text)], [['a', '0000:04:02.5']]);
  assert.deepEqual([...networkPciAddresses(' \n')], []);
  for (const bad of ['{', '[]', '{"interfaces":7}', '{"interfaces":[null]}', '{"interfaces":[{"network":1}]}']) {
    assert.throws(() => networkPciAddresses(bad), { code: 'BAD_DEVICE' });
  }
});

test('a gate that places devices is refused where the VMI relies on it, and nowhere else', () => {
  const gated = { clusterConfig: { pciNumaAwareTopologyEnabled: true }, topology: twoCells };
  const made = (deviceName: string, options: object, numa?: object) => {
    const cpu = { cores: 2, dedicatedCpuPlacement: true, ...(numa && { numa }) };
    const devices = { ...lean, hostDevices: [{ name: 'x', deviceName }] };
    const vmi = vmiWith({ devices, cpu, memory: { guest: '64Mi', hugepages: { pageSize: '2Mi' } } });
    return buildDomainXml(vmi, contextWith({ deviceEnvironment: environment, options }));
  };
  const numa = { guestMappingPassthrough: {} };
  assert.throws(() => made('vendor.com/card', gated, numa), { message: /gate PCINUMAAwareTopology is not supported/ });
  assert.match(made('vendor.com/key', gated, numa), /usb-host-x/);
  assert.match(made('vendor.com/card', gated), /hostdevice-x/);
  assert.match(made('vendor.com/card', { topology: twoCells }, numa), /hostdevice-x/);
  const grace = { graceHostDeviceAliases: ['hostdevice-x'] };
  assert.throws(() => made('vendor.com/card', grace), { message: /GraceIOVirtualization for hostdevice-x is not/ });
});
