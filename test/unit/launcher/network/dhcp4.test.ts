import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { answer4 } from '../../../../src/launcher/network/dhcp4/answer.ts';
import { encodeClasslessRoutes } from '../../../../src/launcher/network/dhcp4/classless-routes.ts';
import { encodeDomainSearch } from '../../../../src/launcher/network/dhcp4/domain-search.ts';
import type { Lease4 } from '../../../../src/launcher/network/dhcp4/lease.ts';
import {
  decodeMessage4,
  encodeMessage4,
  type Message4,
  type4,
} from '../../../../src/launcher/network/dhcp4/message.ts';
import { decodeOptions4, encodeOptions4, option4 } from '../../../../src/launcher/network/dhcp4/options.ts';

const mac = '02:00:00:00:00:01';
const lease: Lease4 = {
  mac,
  address: '10.244.0.5',
  prefix: 24,
  server: '169.254.75.10',
  router: '10.244.0.1',
  dns: ['10.96.0.10', '10.96.0.11'],
  routes: [{ destination: { address: '0.0.0.0', prefix: 0 }, gateway: '10.244.0.1' }],
  hostName: 'vm',
  domainName: 'svc.cluster.local',
  domainSearch: encodeDomainSearch(['svc.cluster.local']).bytes,
  mtu: 1450,
  custom: {
    tftpServerName: 'tftp',
    bootFileName: 'pxe.0',
    ntpServers: ['10.0.0.1'],
    privateOptions: [{ code: 240, value: 'x' }],
  },
};
const unset = { address: '0.0.0.0', port: 68 };

/** As a client without an address sends it. */
function request(change: Partial<Message4> = {}): Buffer {
  return encodeMessage4({
    isRequest: true,
    transactionId: 0x01020304,
    broadcast: false,
    relayAddress: '0.0.0.0',
    mac,
    yourAddress: '0.0.0.0',
    type: type4.DISCOVER,
    options: new Map(),
    ...change,
  });
}

function replyTo(bytes: Buffer, from = unset, given = lease) {
  const answer = answer4(bytes, from, given);
  return answer.kind === 'reply' ? answer : assert.fail(JSON.stringify(answer));
}

test('an offer has these very bytes', () => {
  const { bytes, to } = replyTo(request());
  const head = [
    '02010600', // answer, Ethernet, six bytes of address
    '01020304', // transaction
    '00000000', // seconds, flags
    '00000000', // ciaddr
    '0af40005', // yiaddr
    '00000000', // siaddr
    '00000000', // giaddr
    `020000000001${'00'.repeat(10)}`, // chaddr
    '00'.repeat(192), // sname and file
    '63825363', // magic
  ].join('');
  const options = [
    '350102', // offer
    '0104ffffff00', // mask
    '03040af40001', // router
    '06080a60000a0a60000b', // DNS
    '0c02766d', // host name
    `0f11${Buffer.from('svc.cluster.local').toString('hex')}`,
    '1a0205aa', // MTU 1450
    '2a040a000001', // NTP
    '330405250a80', // 999 days
    '3604a9fe4b0a', // server
    '420474667470', // TFTP server
    '43057078652e30', // boot file
    '77130373766307636c7573746572056c6f63616c00', // search list
    '7905000af40001', // default route
    'f00178', // private option 240
    'ff',
  ];
  const padded = `${head}${options.join('')}`.padEnd(600, '0');
  assert.equal(bytes.toString('hex'), padded);
  assert.deepEqual(to, { address: '255.255.255.255', port: 68 });
});

test('a request is acknowledged with the same lease, to the address that the client has', () => {
  const { bytes, to } = replyTo(request({ type: type4.REQUEST }), { address: '10.244.0.5', port: 68 });
  assert.deepEqual(to, { address: '10.244.0.5', port: 68 });
  assert.equal(decodeOptions4(bytes.subarray(240))?.get(option4.MESSAGE_TYPE)?.[0], type4.ACK);
  const broadcast = replyTo(request({ broadcast: true }), { address: '10.244.0.5', port: 68 });
  assert.equal(broadcast.to.address, '255.255.255.255');
  assert.equal(broadcast.bytes.readUInt16BE(10), 0x8000);
});

const ignoredCases: readonly (readonly [string, Partial<Message4>])[] = [
  ['an answer', { isRequest: false }],
  ['another client', { mac: '02:00:00:00:00:02' }],
  ['a release', { type: 7 }],
  ['an inform', { type: 8 }],
  ['type 0', { type: 0 }],
  [
    'a request for another server',
    { type: type4.REQUEST, options: new Map([[option4.SERVER_ID, Buffer.from([1, 2, 3, 4])]]) },
  ],
];
for (const [name, change] of ignoredCases) {
  test(`not answered: ${name}`, () => {
    assert.equal(answer4(request(change), unset, lease).kind, 'ignored');
  });
}

test('a lease without a MAC is for whoever is on the bridge, and what it has not is left out', () => {
  const { mac: _, router: __, ...bare } = lease;
  const given: Lease4 = {
    ...bare,
    dns: [],
    routes: [],
    domainSearch: Buffer.alloc(0),
    custom: { ntpServers: [], privateOptions: [] },
  };
  const { bytes } = replyTo(request({ mac: '02:00:00:00:00:02' }), unset, given);
  const codes = [...(decodeOptions4(bytes.subarray(240))?.keys() ?? [])];
  assert.deepEqual(codes, [53, 1, 12, 15, 26, 51, 54]);
});

const malformedCases: readonly (readonly [string, Buffer])[] = [
  ['nothing', Buffer.alloc(0)],
  ['239 bytes', request().subarray(0, 239)],
  ['no magic number', Buffer.alloc(300, 1)],
  ['a longer hardware address', Buffer.from(request()).fill(16, 2, 3)],
  ['no message type', Buffer.concat([request().subarray(0, 240), Buffer.from([255])])],
  ['a message type of two bytes', Buffer.concat([request().subarray(0, 240), Buffer.from([53, 2, 1, 1, 255])])],
  [
    'an option that leads beyond the end',
    Buffer.concat([request().subarray(0, 240), Buffer.from([53, 1, 1, 12, 9, 1])]),
  ],
  ['an option without a length', Buffer.concat([request().subarray(0, 240), Buffer.from([53, 1, 1, 12])])],
];
for (const [name, bytes] of malformedCases) {
  test(`malformed: ${name}`, () => {
    assert.equal(answer4(bytes, unset, lease).kind, 'malformed');
  });
}

test('what is written is read again', () => {
  fc.assert(
    fc.property(
      fc.nat(0xffffffff),
      fc.boolean(),
      fc.uint8Array({ minLength: 6, maxLength: 6 }),
      fc.uniqueArray(fc.tuple(fc.integer({ min: 1, max: 254 }), fc.uint8Array({ minLength: 1, maxLength: 700 })), {
        selector: ([code]) => code,
        maxLength: 8,
      }),
      (transactionId, broadcast, address, options) => {
        const wanted = new Map(options.map(([code, value]) => [code, Buffer.from(value)]));
        wanted.set(option4.MESSAGE_TYPE, Buffer.from([3]));
        const text = Buffer.from(address)
          .toString('hex')
          .replace(/..(?=.)/g, '$&:');
        const bytes = request({ transactionId, broadcast, mac: text, type: 3, options: wanted });
        const decoded = decodeMessage4(bytes);
        assert.ok(decoded.kind === 'message');
        assert.deepEqual(
          new Map([...decoded.message.options].sort(([a], [b]) => a - b)),
          new Map([...wanted].sort(([a], [b]) => a - b)),
        );
        assert.equal(decoded.message.mac, text);
        assert.equal(decoded.message.transactionId, transactionId);
        assert.equal(decoded.message.broadcast, broadcast);
      },
    ),
  );
});

test('an option of more than 255 bytes is split, and padding is skipped', () => {
  const long = Buffer.alloc(300, 7);
  const bytes = encodeOptions4(new Map([[121, long]]));
  assert.equal(bytes.subarray(0, 2).toString('hex'), '79ff');
  assert.equal(bytes.subarray(257, 259).toString('hex'), '792d');
  assert.deepEqual(decodeOptions4(Buffer.concat([Buffer.alloc(3), bytes]))?.get(121), long);
  assert.equal(decodeOptions4(Buffer.from([12, 0, 255]))?.get(12)?.length, 0);
});

test('routes have as many bytes of the destination as they need, and the default route comes last', () => {
  const bytes = encodeClasslessRoutes([
    { destination: { address: '0.0.0.0', prefix: 0 }, gateway: '10.1.2.3' },
    { destination: { address: '10.0.0.0', prefix: 8 }, gateway: '10.1.2.3' },
    { destination: { address: '192.168.1.0', prefix: 24 }, gateway: '192.168.2.3' },
    { destination: { address: '172.16.0.0', prefix: 12 } },
    { destination: { address: '10.2.3.4', prefix: 32 }, gateway: '10.1.2.3' },
  ]);
  const parts = ['080a0a010203', '18c0a801c0a80203', '0cac1000000000', '200a0203040a010203', '000a010203'];
  assert.equal(bytes.toString('hex'), parts.join(''));
});

test('search domains that are none are left out, and what there is no room for', () => {
  const { bytes, leftOut } = encodeDomainSearch(['a.b.', '_tcp.example', 'no good', 'x'.repeat(64), '']);
  assert.equal(bytes.toString('hex'), `0161016200045f746370076578616d706c6500`);
  assert.deepEqual(leftOut, ['no good', 'x'.repeat(64), '']);
  const many = Array.from({ length: 60 }, (_, at) => `name${at}.example`);
  const cut = encodeDomainSearch(many);
  assert.ok(cut.bytes.length <= 510 && cut.leftOut.length > 0);
});
