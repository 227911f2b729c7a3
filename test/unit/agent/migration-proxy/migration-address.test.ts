import assert from 'node:assert/strict';
import type { NetworkInterfaceInfo } from 'node:os';
import { test } from 'node:test';
import { migrationAddress } from '../../../../src/agent/migration-proxy/index.ts';

const ipv4 = (address: string): NetworkInterfaceInfo => ({
  ...{ address, family: 'IPv4', netmask: '255.255.255.0', mac: '02:00:00:00:00:01', internal: false },
  cidr: `${address}/24`,
});
const ipv6 = (address: string): NetworkInterfaceInfo => ({
  ...{ address, family: 'IPv6', netmask: 'ffff:ffff:ffff:ffff::', mac: '02:00:00:00:00:01', internal: false },
  ...{ cidr: `${address}/64`, scopeid: 0 },
});

test('the address for migrations is the pod’s, unless there is a network for them', () => {
  assert.equal(migrationAddress({ eth0: [ipv4('10.0.0.7')] }, false, '10.0.0.1'), '10.0.0.1');
  assert.equal(
    migrationAddress({ eth0: [ipv4('10.0.0.7')], migration0: [ipv4('172.21.0.3')] }, true, '10.0.0.1'),
    '172.21.0.3',
  );
});

test('addresses of the link are passed over, and a network without another one has none: it is not the pod’s then', () => {
  const own = [ipv4('169.254.3.4'), ipv6('fe80::1'), ipv6('fd00:21::3')];
  assert.equal(migrationAddress({ migration0: own }, true, '10.0.0.1'), 'fd00:21::3');
  assert.equal(migrationAddress({ migration0: own.slice(0, 2) }, true, '10.0.0.1'), undefined);
});

test('an interface that has no address at all is there all the same: no migration goes over another network', () => {
  assert.equal(migrationAddress({ eth0: [ipv4('10.0.0.7')] }, true, '10.0.0.1'), undefined);
});
