import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { answer6 } from '../../../../src/launcher/network/dhcp6/answer.ts';
import type { Lease6 } from '../../../../src/launcher/network/dhcp6/lease.ts';
import { decodeMessage6, encodeMessage6 } from '../../../../src/launcher/network/dhcp6/message.ts';

const lease: Lease6 = { address: 'fd10:0:2::2', serverMac: '02:00:00:00:00:00', dns: ['fd00::10'] };
const from = { address: 'fe80::1%k6t-eth0', port: 546 };

const clientId = '0001000a00030001020000000001';
const serverId = '0002000a00030001020000000000';
const iaNaAsked = '0003000c0a0b0c0d0000000000000000';
const lifetimes = '05250a80'.repeat(2);
const iaNa = `000300280a0b0c0d0000000000000000${'00050018'}fd100000000200000000000000000002${lifetimes}`;
const dns = '00170010fd000000000000000000000000000010';

const message = (type: string, ...options: string[]) => Buffer.from(`${type}abcdef${options.join('')}`, 'hex');

function reply(bytes: Buffer): string {
  const answer = answer6(bytes, from, lease);
  assert.ok(answer.kind === 'reply', JSON.stringify(answer));
  assert.deepEqual(answer.to, from);
  return answer.bytes.toString('hex');
}

test('the lifetime is 999 days', () => {
  assert.equal(86_313_600, Number.parseInt(lifetimes.slice(0, 8), 16));
});

test('a solicit is answered with an advertise of these very bytes', () => {
  assert.equal(reply(message('01', clientId, iaNaAsked)), `02abcdef${clientId}${serverId}${iaNa}${dns}`);
});

test('with rapid commit it gets the address at once', () => {
  const bytes = message('01', clientId, '000e0000', iaNaAsked);
  assert.equal(reply(bytes), `07abcdef${clientId}${serverId}000e0000${iaNa}${dns}`);
});

for (const [name, type] of [
  ['request', '03'],
  ['renew', '05'],
  ['rebind', '06'],
] as const) {
  test(`a ${name} is answered with the address`, () => {
    assert.equal(reply(message(type, clientId, serverId, iaNaAsked)), `07abcdef${clientId}${serverId}${iaNa}${dns}`);
  });
}

test('two associations: the first gets the one address', () => {
  const other = '0003000c000000010000000000000000';
  assert.equal(reply(message('01', clientId, iaNaAsked, other)), `02abcdef${clientId}${serverId}${iaNa}${dns}`);
});

for (const [name, type] of [
  ['confirm', '04'],
  ['release', '08'],
  ['decline', '09'],
] as const) {
  test(`a ${name} succeeds and gives nothing`, () => {
    assert.equal(reply(message(type, clientId, serverId, iaNaAsked)), `07abcdef${clientId}${serverId}000d00020000`);
  });
}

test('a request for information needs no identity and gets no address', () => {
  assert.equal(reply(message('0b')), `07abcdef${serverId}${dns}`);
});

const notAnswered: readonly (readonly [string, Buffer])[] = [
  ['an advertise', message('02', clientId, serverId)],
  ['a reply', message('07', clientId, serverId)],
  ['a solicit without identity', message('01', iaNaAsked)],
  ['a request that names no server', message('03', clientId, iaNaAsked)],
  ['a request for another server', message('03', clientId, '00020002ffff', iaNaAsked)],
];
for (const [name, bytes] of notAnswered) {
  test(`not answered: ${name}`, () => assert.equal(answer6(bytes, from, lease).kind, 'ignored'));
}

const malformed: readonly (readonly [string, Buffer])[] = [
  ['nothing', Buffer.alloc(0)],
  ['three bytes', Buffer.from([1, 2, 3])],
  ['a relay', message('0c', '00'.repeat(40))],
  ['half an option head', message('01', '0001')],
  ['an option that leads beyond the end', message('01', '0001000a00')],
];
for (const [name, bytes] of malformed) {
  test(`malformed: ${name}`, () => assert.equal(answer6(bytes, from, lease).kind, 'malformed'));
}

test('what is written is read again', () => {
  const option = fc
    .tuple(fc.nat(0xffff), fc.uint8Array({ maxLength: 300 }))
    .map(([code, value]) => ({ code, value: Buffer.from(value) }));
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 11 }), fc.nat(0xffffff), fc.array(option), (type, transactionId, options) => {
      const written = { type, transactionId, options };
      assert.deepEqual(decodeMessage6(encodeMessage6(written)), { kind: 'message', message: written });
    }),
  );
});
