import assert from 'node:assert/strict';
import { test } from 'node:test';
import { projectInterfaces } from '../../../../../src/agent/vmi/status/interfaces.ts';
import type { Interface, VmiInterfaceStatus } from '../../../../../src/api/index.ts';
import { domainOf, vmiOf } from '../../../../fixtures/agent/builders.ts';

const mac = '02:00:00:00:00:01';

interface Situation {
  readonly binding?: Partial<Interface>;
  readonly podIps?: readonly string[];
  /** Of the guest agent; undefined: it reports nothing. */
  readonly told?: readonly string[];
  readonly before?: readonly VmiInterfaceStatus[];
  /** libvirt's. */
  readonly type?: string;
}

/** Addresses of the only interface. */
function ipsOf({ binding = { masquerade: {} }, podIps, told, before = [], type = 'ethernet' }: Situation) {
  const domain = domainOf('Running');
  const device = { Type: type, Alias: { Name: 'default' }, MAC: { MAC: mac }, Driver: null, LinkState: null };
  domain.Spec = { ...domain.Spec, Devices: { ...domain.Spec?.Devices, Interfaces: [device] } } as never;
  if (told) domain.Status.Interfaces = [{ Mac: mac, Ip: told[0] ?? '', IPs: [...told], InterfaceName: 'eth0' }];
  const spec = {
    domain: { devices: { interfaces: [{ name: 'default', ...binding }] } },
    networks: [{ name: 'default', pod: {} }],
  };
  const vmi = vmiOf('Running', { spec, status: { interfaces: [...before] } } as never);
  const [entry] = projectInterfaces(vmi, domain, podIps ? { default: podIps } : {});
  return [entry?.ipAddress, entry?.ipAddresses];
}

const pod = ['10.244.7.5', 'fd00:7::5'];

test('without a guest agent the pod’s addresses are the guest’s, in their order', () => {
  assert.deepEqual(ipsOf({ podIps: pod }), ['10.244.7.5', pod]);
  const turned = [...pod].reverse();
  assert.deepEqual(ipsOf({ podIps: turned }), ['fd00:7::5', turned]);
  assert.deepEqual(ipsOf({ binding: { bridge: {} }, podIps: ['10.244.7.5'] }), ['10.244.7.5', ['10.244.7.5']]);
});

test('where the guest agent reports an address of a family the pod’s counts, else there is none', () => {
  assert.deepEqual(ipsOf({ podIps: pod, told: ['10.0.2.2', 'fd10:0:2::2'] }), ['10.244.7.5', pod]);
  assert.deepEqual(ipsOf({ podIps: pod, told: ['10.0.2.2', 'fe80::1'] }), ['10.244.7.5', ['10.244.7.5']]);
  assert.deepEqual(ipsOf({ podIps: pod, told: [] }), [undefined, undefined]);
});

test('what only the guest has is added behind a bridge', () => {
  const both = ['10.244.7.5', 'fd00:9::9'];
  assert.deepEqual(ipsOf({ binding: { bridge: {} }, podIps: ['10.244.7.5'], told: both }), ['10.244.7.5', both]);
});

test('addresses in the pod replace what stood in the status before', () => {
  const before = [{ name: 'default', ipAddress: '10.9.9.9', ipAddresses: ['10.9.9.9'] }];
  assert.deepEqual(ipsOf({ podIps: pod, before }), ['10.244.7.5', pod]);
  assert.deepEqual(ipsOf({ before }), ['10.9.9.9', ['10.9.9.9']]);
});

test('in QEMU’s own network, which nobody reaches, a guest has no address, whatever its agent says', () => {
  const before = [{ name: 'default', ipAddress: '10.0.2.15', ipAddresses: ['10.0.2.15'] }];
  assert.deepEqual(ipsOf({ type: 'user', told: ['10.0.2.15', 'fec0::1'], before }), [undefined, undefined]);
  assert.deepEqual(ipsOf({ type: 'user', before }), [undefined, undefined]);
});
