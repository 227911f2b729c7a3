import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressIn, parseAddress } from '../../../../../../src/agent/vmi/host/network/addresses.ts';

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
    const parsed = parseAddress(cidr);
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
    assert.equal(parseAddress(text), undefined, text);
  }
});
