import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addressIn,
  isGlobalUnicast,
  maskOf,
  parseCidr,
} from '../../../../../../src/agent/vmi/host/network/addresses.ts';

test('addresses count as Go counts them: private ones do, those of a link or a group do not', () => {
  for (const ip of ['10.0.0.1', '192.168.1.1', '100.64.0.1', '240.0.0.1', 'fd00::1', '2001:db8::1', 'fec0::1']) {
    assert.equal(isGlobalUnicast(ip), true, ip);
  }
  const others = ['0.0.0.0', '255.255.255.255', '127.0.0.9', '169.254.7.7', '224.0.0.1', '239.1.1.1'];
  for (const ip of [...others, '::', '::1', 'fe80::1', 'febf::1', 'ff02::1', 'fe80::1%eth0', 'nonsense', '']) {
    assert.equal(isGlobalUnicast(ip), false, ip);
  }
});

const steps: readonly (readonly [cidr: string, offset: number, address: string])[] = [
  ['10.0.2.0/24', 1, '10.0.2.1'],
  ['10.0.2.77/24', 2, '10.0.2.2'],
  ['255.255.255.252/30', 2, '255.255.255.254'],
  ['0.0.0.0/0', 1, '0.0.0.1'],
  ['fd10:0:2::/120', 1, 'fd10:0:2::1'],
  ['fd10:0:2::ff/120', 2, 'fd10:0:2::2'],
  ['2001:db8:0:0:1:0:0:0/64', 1, '2001:db8::1'],
  ['2001:db8:1:0:1::/80', 0, '2001:db8:1:0:1::'],
  ['2001:0db8:1:2:3:4:5:6/128', 0, '2001:db8:1:2:3:4:5:6'],
  ['1:0:2:3:4:5:6:7/128', 0, '1:0:2:3:4:5:6:7'],
  ['::ffff:10.1.2.3/128', 0, '::ffff:a01:203'],
  ['::/0', 0, '::'],
];

for (const [cidr, offset, address] of steps) {
  test(`${offset} after the network of ${cidr} is ${address}`, () => {
    const parsed = parseCidr(cidr);
    assert.ok(parsed);
    assert.equal(addressIn(parsed, offset), address);
  });
}

test('what is no network is none', () => {
  for (const text of [
    '',
    '10.0.0.0',
    '10.0.0.0/33',
    '::/129',
    '10.0.0.0/24/1',
    '10.0.0/24',
    'x/24',
    '10.0.0.0/-1',
    'fe80::%a/64',
  ]) {
    assert.equal(parseCidr(text), undefined, text);
  }
});

test('a mask has as many ones as its prefix says', () => {
  const masks = [0, 1, 24, 31, 32].map((prefix) => [...maskOf(prefix)].join('.'));
  assert.deepEqual(masks, ['0.0.0.0', '128.0.0.0', '255.255.255.0', '255.255.255.254', '255.255.255.255']);
});
