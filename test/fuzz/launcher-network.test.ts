import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { DhcpOptions } from '../../src/api/index.ts';
import { ipv4Bytes } from '../../src/base/index.ts';
import { ConvertError, interfaceChanges } from '../../src/launcher/domain/index.ts';
import type { Answer } from '../../src/launcher/network/answer.ts';
import { customOptions } from '../../src/launcher/network/custom-options.ts';
import { answer4 } from '../../src/launcher/network/dhcp4/answer.ts';
import { encodeDomainSearch } from '../../src/launcher/network/dhcp4/domain-search.ts';
import { type Lease4, leaseOptions4 } from '../../src/launcher/network/dhcp4/lease.ts';
import { decodeMessage4, encodeMessage4 } from '../../src/launcher/network/dhcp4/message.ts';
import { option4 } from '../../src/launcher/network/dhcp4/options.ts';
import { answer6 } from '../../src/launcher/network/dhcp6/answer.ts';
import { decodeMessage6, encodeMessage6 } from '../../src/launcher/network/dhcp6/message.ts';
import { NetworkError } from '../../src/launcher/network/errors.ts';
import { parseResolvConf, withSubdomain } from '../../src/launcher/network/resolv-conf.ts';
import { parseVifCache } from '../../src/launcher/network/vif-cache.ts';
import { vmiWith } from '../unit/launcher/domain/cases.ts';
import { changedBytes, changedText, changedValue, fuzz, judged, repeated, together } from './kit/index.ts';

/** What a guest sends to the servers of its bridge, and what a pod holds for them. */

const lease4: Lease4 = {
  address: '10.0.2.2',
  prefix: 24,
  server: '10.0.2.1',
  router: '10.0.2.1',
  dns: ['10.96.0.10'],
  routes: [{ destination: { address: '10.0.0.0', prefix: 8 }, gateway: '10.0.2.1' }],
  hostName: 'vm',
  domainName: 'cluster.local',
  domainSearch: encodeDomainSearch(['cluster.local']).bytes,
  mtu: 1500,
  custom: { ntpServers: [], privateOptions: [] },
};

const request4 = (type: number) =>
  encodeMessage4({
    isRequest: true,
    transactionId: 7,
    broadcast: false,
    relayAddress: '0.0.0.0',
    mac: '02:00:00:00:00:01',
    yourAddress: '0.0.0.0',
    type,
    options: new Map([
      [option4.SERVER_ID, ipv4Bytes('10.0.2.1') ?? Buffer.alloc(0)],
      [55, Buffer.from([1, 3, 6, 15, 26, 119, 121])],
      [61, Buffer.from([1, 2, 0, 0, 0, 0, 1])],
    ]),
  });

/** What both servers promise of any bytes: a reply, or that there is none. */
class NoReply extends Error {}

function replyOf(answer: Answer): Buffer {
  if (answer.kind !== 'reply') throw new NoReply(answer.kind);
  return answer.bytes;
}

const isNoReply = (error: unknown) => error instanceof NoReply;
const from4 = { address: '0.0.0.0', port: 68 };

fuzz('launcher: DHCPv4 of a guest', {
  input: changedBytes([request4(1), request4(3), request4(8)]),
  parse: (bytes) =>
    judged(isNoReply, () => {
      const reply = replyOf(answer4(bytes, from4, lease4));
      assert.ok(reply.length <= 1400);
      const decoded = decodeMessage4(reply);
      assert.ok(decoded.kind === 'message' && !decoded.message.isRequest && decoded.message.yourAddress === '10.0.2.2');
    }),
  growing: {
    'options without end': (size) =>
      Buffer.concat([request4(1).subarray(0, 243), Buffer.alloc(size, Buffer.from([55, 1, 0]))]),
    'empty options': (size) => Buffer.concat([request4(1).subarray(0, 243), Buffer.alloc(size, Buffer.from([9, 0]))]),
    padding: (size) => Buffer.concat([request4(1).subarray(0, 243), Buffer.alloc(size)]),
  },
  growingTo: 65_507,
});

const solicit = Buffer.from('01abcdef0001000a000300010200000000010003000c0a0b0c0d0000000000000000000e0000', 'hex');
const renew = Buffer.from(
  '05abcdef0001000a000300010200000000010002000a00030001020000000000' + '0003000c0a0b0c0d0000000000000000',
  'hex',
);

const from6 = { address: 'fe80::1%k6t-eth0', port: 546 };
const lease6 = { address: 'fd10:0:2::2', serverMac: '02:00:00:00:00:00', dns: ['fd00::10'] };

fuzz('launcher: DHCPv6 of a guest', {
  input: changedBytes([solicit, renew]),
  parse: (bytes) =>
    judged(isNoReply, () => {
      const reply = replyOf(answer6(bytes, from6, lease6));
      const decoded = decodeMessage6(reply);
      assert.ok(decoded.kind === 'message');
      assert.deepEqual(encodeMessage6(decoded.message), reply);
    }),
  growing: {
    associations: (size) =>
      Buffer.concat([solicit, Buffer.alloc(size, Buffer.from('0003000c0a0b0c0d0000000000000000', 'hex'))]),
    'empty options': (size) => Buffer.concat([solicit, Buffer.alloc(size, Buffer.from('00090000', 'hex'))]),
  },
  growingTo: 65_507,
});

const cache = {
  IP: { IP: '10.244.0.5', Mask: '////AA==' },
  MAC: 'AgAAAAAB',
  Routes: [
    { Dst: null, Gw: '10.244.0.1' },
    { Dst: { IP: '10.96.0.0', Mask: '//8AAA==' }, Gw: '10.244.0.1' },
  ],
  IPAMDisabled: false,
  Gateway: '10.244.0.1',
};

/** Its reader turns any `Error` into one that names the file; faults of the program are other classes. */
const isPlainError = (error: unknown) => error instanceof Error && error.constructor === Error;

fuzz('launcher: hand-over of the agent', {
  input: changedValue([cache, { IPAMDisabled: true }]),
  parse: (json) =>
    judged(isPlainError, () => {
      const found = parseVifCache(json);
      if (found.kind === 'no-ipam') return;
      const { mac, address, gateway, routes } = found;
      const given: Lease4 = { ...lease4, ...address, routes, ...(mac && { mac }), ...(gateway && { router: gateway }) };
      assert.ok(leaseOptions4(given).size > 0);
    }),
});

fuzz('launcher: resolv.conf of the pod', {
  input: fc.tuple(
    changedText(['search a.svc.cluster.local b\nnameserver 10.96.0.10\nnameserver fd00::a\noptions ndots:5\n']),
    changedText(['sub']),
  ),
  parse: ([text, subdomain]) => {
    const { dns4, dns6, searchDomains } = parseResolvConf(text);
    assert.ok(dns4.length + dns6.length > 0 && searchDomains.length > 0);
    const { bytes } = encodeDomainSearch(withSubdomain(searchDomains, subdomain));
    assert.ok(bytes.length <= 510);
    assert.ok(leaseOptions4({ ...lease4, dns: dns4, domainSearch: bytes }).size > 0);
    return 'accepted';
  },
  refusesNothing: true,
  growing: {
    'many domains': (size) => together(repeated('a.example ', 'search ', '\n')(size), 's'),
    'many servers': (size) => together(repeated('nameserver 1.1.1.1\n')(size), 's'),
    blanks: (size) => together(repeated(' ')(size), 's'),
  },
});

const options: DhcpOptions = {
  bootFileName: 'a',
  tftpServerName: 'b',
  ntpServers: ['10.0.0.1'],
  privateOptions: [{ option: 240, value: 'x' }],
};

fuzz('launcher: dhcpOptions of a VMI', {
  input: fc.tuple(
    changedText(['10.0.0.1', '255.255.255.255']),
    fc.oneof(fc.integer({ min: 200, max: 260 }), fc.double()),
    changedText(['value', 'x'.repeat(255)]),
  ),
  parse: ([server, option, value]) =>
    judged(
      (error) => error instanceof NetworkError,
      () => {
        const custom = customOptions('i', {
          ...options,
          bootFileName: value,
          ntpServers: [server],
          privateOptions: [{ option, value }],
        });
        assert.ok(encodeMessage4({ ...messageOf(), options: leaseOptions4({ ...lease4, custom }) }).length < 1500);
      },
    ),
});

function messageOf() {
  const decoded = decodeMessage4(request4(1));
  return decoded.kind === 'message' ? decoded.message : assert.fail();
}

const live = [
  "<domain><devices><interface type='ethernet'><target dev='tap16477688c0e'/><link state='down'/><alias name='ua-blue'/></interface></devices></domain>",
];

fuzz('launcher: network devices of a running domain', {
  input: changedText(live, ['<interface>', "<alias name='ua-", '</interface>', '&amp;', "='"]),
  parse: (xml) =>
    judged(
      (error) => error instanceof ConvertError,
      () => {
        const networks = [{ name: 'blue', multus: { networkName: 'blue' } }];
        for (const state of ['up', 'down', 'absent'] as const) {
          const vmi = vmiWith({ devices: { interfaces: [{ name: 'blue', bridge: {}, state }] } }, { networks });
          const { plug, unplug, relink } = interfaceChanges(vmi, xml);
          assert.ok(plug.length + unplug.length + relink.length <= 1);
        }
      },
    ),
});
