import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Interface, Network, VirtualMachineInstance } from '../../../../src/api/index.ts';
import {
  buildDomainXml,
  ConvertError,
  interfaceChanges,
  interfaceXml,
  networkDevices,
} from '../../../../src/launcher/domain/index.ts';
import { contextWith, lean, vmiWith } from './cases.ts';

const blue: Network = { name: 'blue', multus: { networkName: 'blue' } };
const red: Network = { name: 'red', multus: { networkName: 'red' } };
const networks: Network[] = [{ name: 'default', pod: {} }, blue, red];
const noLinks = new Map();

function vmiOf(interfaces: Interface[], status: VirtualMachineInstance['status'] = {}): VirtualMachineInstance {
  const used = networks.filter(({ name }) => interfaces.some((iface) => iface.name === name));
  return { ...vmiWith({ devices: { ...lean, interfaces } }, { networks: used }), status };
}

test('devices have the names that the agent gives them, by digest or counted', () => {
  const vmi = vmiOf([{ name: 'default' }, { name: 'blue' }, { name: 'red' }]);
  const digest = { pod: 'pod16477688c0e', tap: 'tap16477688c0e', bridge: 'k6t-16477688c0e', podNic: '16477688c0e-nic' };
  assert.deepEqual(networkDevices(blue, vmi, noLinks), digest);
  const counted = new Set(['eth0', 'net1', 'net2']);
  assert.deepEqual(networkDevices(red, vmi, counted), {
    pod: 'net2',
    tap: 'tap2',
    bridge: 'k6t-net2',
    podNic: 'net2-nic',
  });
  const primary: Network = { name: 'default', pod: {} };
  assert.deepEqual(networkDevices(primary, vmi, noLinks), {
    pod: 'eth0',
    tap: 'tap0',
    bridge: 'k6t-eth0',
    podNic: 'eth0-nic',
  });
  const named = { ...vmi, status: { interfaces: [{ name: 'default', podInterfaceName: 'ovn-udn1' }] } };
  const devices = { pod: 'ovn-udn1', tap: 'tap0', bridge: 'k6t-ovn-udn1', podNic: 'ovn-udn1-nic' };
  assert.deepEqual(networkDevices(primary, named, new Set(['eth0', 'ovn-udn1'])), devices);
});

const unsupportedBindings: readonly (readonly [object, RegExp])[] = [
  [{ slirp: {} }, /\.slirp .*: use masquerade/],
  [{ macvtap: {} }, /\.macvtap .*: use bridge/],
  [{ passt: {} }, /\.passt .*: use passtBinding or masquerade/],
  [{ binding: { name: 'plug' } }, /\.binding plug .*domainAttachmentType tap/],
];
for (const [binding, message] of unsupportedBindings) {
  test(`${Object.keys(binding)[0]} is refused with what to use`, () => {
    const vmi = vmiOf([{ name: 'default', ...binding }]);
    const context = contextWith({ network: 'tap', links: noLinks });
    assert.throws(
      () => buildDomainXml(vmi, context),
      (error) => {
        assert.ok(error instanceof ConvertError);
        assert.equal(error.code, 'UNSUPPORTED_FIELD');
        assert.match(error.message, message);
        return true;
      },
    );
  });
}

test('a plug-in with a tap may have made it under the name of the pod device; the core bindings need their own tap', () => {
  const links = new Map([['eth0', { name: 'eth0', mac: '02:00:00:00:00:aa', mtu: 1400 }]]);
  const options = { interfaceDomainAttachment: { default: 'tap' } };
  const context = contextWith({ network: 'tap', links, options });
  const xml = interfaceXml(vmiOf([{ name: 'default', binding: { name: 'plug' } }]), 'default', context);
  assert.match(xml, /<target dev="eth0" managed="no"\/>/);
  assert.match(xml, /<mac address="02:00:00:00:00:aa"\/>/);
  assert.throws(() => interfaceXml(vmiOf([{ name: 'default', masquerade: {} }]), 'default', context), {
    code: 'MISSING_LINK',
    message: /no network device tap0 \(there are: eth0\)/,
  });
});

const passtStatus = { interfaces: [{ name: 'default', podInterfaceName: 'eth0' }] };

test('passt becomes a vhost-user device on the device of the pod, with shared memory', () => {
  const ports = [{ port: 80 }, { port: 53, protocol: 'UDP' }, { port: 443, protocol: 'TCP' }];
  const vmi = vmiOf([{ name: 'default', passtBinding: {}, ports, macAddress: '02-00-00-00-00-01' }], passtStatus);
  const xml = buildDomainXml(vmi, contextWith({ network: 'tap', links: noLinks }));
  const wanted = [
    '<interface type="vhostuser">',
    '<mac address="02:00:00:00:00:01"/>',
    '<source dev="eth0"/>',
    '<backend type="passt" logFile="/var/run/kubevirt/passt.log"/>',
    '<portForward proto="tcp">',
    '<range start="80"/>',
    '<range start="443"/>',
    '</portForward>',
    '<portForward proto="udp">',
    '<range start="53"/>',
    '</portForward>',
    '<model type="virtio-non-transitional"/>',
    '<rom enabled="no"/>',
    '<alias name="ua-default"/>',
    '</interface>',
  ];
  const lines = xml.split('\n').map((line) => line.trim());
  assert.deepEqual(lines.slice(lines.indexOf('<interface type="vhostuser">')).slice(0, wanted.length), wanted);
  assert.match(xml, /<memoryBacking>\s*<source type="memfd"\/>\s*<access mode="shared"\/>\s*<\/memoryBacking>/);
  assert.match(xml, /<cell id="0" cpus="0" memory="65536" unit="KiB"\/>/);
});

test('passt without ports forwards all, and leaves its ports to Istio', () => {
  const vmi = vmiOf([{ name: 'default', passtBinding: {} }], passtStatus);
  const context = contextWith({ network: 'tap', links: noLinks });
  const xml = interfaceXml(vmi, 'default', context);
  assert.match(xml, /<portForward proto="tcp"\/>\s*<portForward proto="udp"\/>/);
  vmi.metadata.annotations = { 'sidecar.istio.io/inject': 'True' };
  const excluded = interfaceXml(vmi, 'default', context).match(/<range start="15\d\d\d" exclude="yes"\/>/g);
  assert.equal(excluded?.length, 10);
});

const wrongPasst: readonly (readonly [Partial<Interface>, VirtualMachineInstance['status'], RegExp])[] = [
  [{}, {}, /podInterfaceName/],
  [{ ports: [{ port: 0 }] }, passtStatus, /0 is no port/],
  [{ ports: [{ port: 80, protocol: 'sctp' }] }, passtStatus, /cannot forward sctp/],
  [{ dhcpOptions: {} }, passtStatus, /dhcpOptions is not supported/],
];
for (const [change, status, message] of wrongPasst) {
  test(`passt is refused: ${message.source}`, () => {
    const vmi = vmiOf([{ name: 'default', passtBinding: {}, ...change }], status);
    assert.throws(() => interfaceXml(vmi, 'default', contextWith({ network: 'tap', links: noLinks })), message);
  });
}

/** As libvirt gives it. */
function domainXml(...interfaces: string[]): string {
  return `<domain><devices><disk/>${interfaces.join('')}</devices></domain>`;
}
const device = (name: string, tap: string, more = '') =>
  `<interface type='ethernet'><mac address='02:00:00:00:00:01'/><target dev='${tap}' managed='no'/><model type='virtio'/>${more}<alias name='ua-${name}'/><address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></interface>`;
const defaultDevice = device('default', 'tap0');
const blueDevice = device('blue', 'tap16477688c0e');
const multus = (...names: string[]) => ({
  interfaces: names.map((name) => ({ name, infoSource: 'domain, multus-status' })),
});

test('what Multus has plugged and the domain lacks is plugged; what it has is not', () => {
  const interfaces: Interface[] = [
    { name: 'default', masquerade: {} },
    { name: 'blue', bridge: {} },
    { name: 'red', bridge: {} },
  ];
  const changes = interfaceChanges(vmiOf(interfaces, multus('default', 'blue')), domainXml(defaultDevice));
  assert.deepEqual(changes, { present: ['default'], plug: ['blue'], unplug: [], relink: [] });
  const done = interfaceChanges(vmiOf(interfaces, multus('default', 'blue')), domainXml(defaultDevice, blueDevice));
  assert.deepEqual(done.plug, []);
});

test('an absent interface is neither plugged nor relinked; it is unplugged when its tap is named by digest', () => {
  const interfaces: Interface[] = [
    { name: 'default', masquerade: {} },
    { name: 'blue', bridge: {}, state: 'absent' },
  ];
  const vmi = vmiOf(interfaces, multus('default', 'blue'));
  assert.deepEqual(interfaceChanges(vmi, domainXml(defaultDevice)).unplug, []);
  const [unplug] = interfaceChanges(vmi, domainXml(defaultDevice, blueDevice)).unplug;
  assert.equal(unplug?.name, 'blue');
  assert.match(unplug?.xml ?? '', /<target dev="tap16477688c0e" managed="no"\/>/);
  assert.match(unplug?.xml ?? '', /<address type="pci" domain="0x0000" bus="0x01" slot="0x00" function="0x0"\/>/);
  const counted = interfaceChanges(vmi, domainXml(defaultDevice, device('blue', 'tap1')));
  assert.deepEqual(counted, { present: ['default', 'blue'], plug: [], unplug: [], relink: [] });
});

const linkCases: readonly (readonly [Interface['state'], string, RegExp | undefined])[] = [
  ['down', '', /<link state="down"\/>/],
  ['down', "<link state='up'/>", /<link state="down"\/>/],
  ['down', "<link state='down'/>", undefined],
  ['up', "<link state='down'/>", /^(?!.*<link)/s],
  [undefined, "<link state='down'/>", /^(?!.*<link)/s],
  ['up', "<link state='up'/>", undefined],
  ['up', '', undefined],
];
for (const [state, link, wanted] of linkCases) {
  test(`a link that is to be ${state ?? 'as by default'} and has "${link}" is ${wanted ? 'changed' : 'left alone'}`, () => {
    const iface: Interface = { name: 'default', masquerade: {}, ...(state && { state }) };
    const { relink } = interfaceChanges(vmiOf([iface]), domainXml(device('default', 'tap0', link)));
    assert.equal(relink.length, wanted ? 1 : 0);
    assert.match(relink[0]?.xml ?? '', wanted ?? /^$/);
  });
}

test('the device of a plug-in without a tap is for its sidecar to write, where the pod has some', () => {
  const vmi = vmiOf([{ name: 'default', binding: { name: 'plug' } }]);
  const made = (hasHookSidecars: boolean) =>
    buildDomainXml(vmi, contextWith({ network: 'tap', links: noLinks, hasHookSidecars }));
  assert.doesNotMatch(made(true), /<interface/);
  assert.throws(() => made(false), { code: 'UNSUPPORTED_FIELD', message: /or with a sidecarImage/ });
});
