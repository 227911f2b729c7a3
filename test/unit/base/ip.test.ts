import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addressInSubnet,
  ipv6Bytes,
  isGlobalUnicast,
  maskBytes,
  maskPrefix,
  parseCidr,
} from '../../../src/base/index.ts';

test('addresses count as Go counts them: private ones do, those of a link or a group do not', () => {
  for (const ip of [
    '10.0.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '240.0.0.1',
    'fd00::1',
    '2001:db8::1',
    'fec0::1',
    '8.8.8.8',
  ]) {
    assert.equal(isGlobalUnicast(ip), true, ip);
  }
  const others = ['0.0.0.0', '255.255.255.255', '127.0.0.9', '169.254.7.7', '224.0.0.1', '239.1.1.1'];
  for (const ip of [...others, '::', '::1', 'fe80::1', 'febf::1', 'ff02::1', 'fe80::1%eth0', 'nonsense', 'x', '']) {
    assert.equal(isGlobalUnicast(ip), false, ip);
  }
});

test('addresses: text, masks, subnets', () => {
  assert.equal(ipv6Bytes('fd10:0:2::1')?.toString('hex'), 'fd100000000200000000000000000001');
  assert.equal(ipv6Bytes('::ffff:1.2.3.4')?.toString('hex'), '00000000000000000000ffff01020304');
  assert.equal(ipv6Bytes('::')?.toString('hex'), '00'.repeat(16));
  assert.equal(ipv6Bytes('fe80::1%eth0'), undefined);
  const prefixes = Array.from({ length: 33 }, (_, at) => at);
  assert.deepEqual(
    prefixes.map((prefix) => maskPrefix(maskBytes(prefix))),
    prefixes,
  );
  const subnet = parseCidr('fd10:0:2::77/120', 'ipv6') ?? assert.fail();
  assert.equal(addressInSubnet(subnet, 'ipv6', 1n), 'fd10:0:2::1');
});

test('a mask has as many ones as its prefix says', () => {
  const masks = [0, 1, 24, 31, 32].map((prefix) => [...maskBytes(prefix)].join('.'));
  assert.deepEqual(masks, ['0.0.0.0', '128.0.0.0', '255.255.255.0', '255.255.255.254', '255.255.255.255']);
});
