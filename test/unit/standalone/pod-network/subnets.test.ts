import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Cidr } from '../../../../src/base/index.ts';
import { isPodNetworkWish } from '../../../../src/standalone/pod-network/index.ts';
import {
  addressAt,
  capacityOf,
  chooseIpv4,
  chooseIpv6,
  isFree,
  parseSubnet,
  textOf,
} from '../../../../src/standalone/pod-network/subnets.ts';

function subnet(text: string): Cidr {
  const found = parseSubnet(text);
  assert.ok(found, text);
  return found;
}

describe('subnets of the pod network', () => {
  test('are chosen where the machine has no route, the same for the same state directory', () => {
    const usual = chooseIpv4('/var/lib/virt-node', []);
    assert.ok(usual);
    assert.match(textOf(usual), /^10\.201\.\d+\.0\/24$/);
    assert.deepEqual(chooseIpv4('/var/lib/virt-node', [subnet('192.168.1.0/24')]), usual);
    const next = chooseIpv4('/var/lib/virt-node', [usual]);
    assert.ok(next && isFree(next, [usual]));
  });

  test('avoid a VPN that has a whole class, and one that has two', () => {
    assert.match(textOf(chooseIpv4('/x', [subnet('10.0.0.0/8')]) ?? subnet('0.0.0.0/0')), /^172\.29\.\d+\.0\/24$/);
    const both = [subnet('10.0.0.0/8'), subnet('172.16.0.0/12')];
    assert.match(textOf(chooseIpv4('/x', both) ?? subnet('0.0.0.0/0')), /^192\.168\.\d+\.0\/24$/);
    assert.equal(chooseIpv4('/x', [...both, subnet('192.168.0.0/16')]), undefined);
  });

  test('routes that mean everything are in nobody’s way', () => {
    assert.ok(isFree(subnet('10.201.3.0/24'), [subnet('0.0.0.0/1'), subnet('128.0.0.0/1')]));
  });

  test('of IPv6 are unique local, and other ones on another machine', () => {
    const one = chooseIpv6('/x', 'a');
    assert.match(textOf(one), /^fd[0-9a-f]{2}:[0-9a-f]{1,4}:[0-9a-f]{1,4}:1::\/64$/);
    assert.notDeepEqual(chooseIpv6('/x', 'b'), one);
    assert.equal(addressAt(subnet('fd00:1:2:1::/64'), 26), 'fd00:1:2:1::1a');
  });

  test('have an address per pod, but the network’s, the bridge’s and the broadcast’s', () => {
    assert.equal(capacityOf({ ipv4: subnet('10.1.2.0/24') }), 253);
    assert.equal(addressAt(subnet('10.1.0.0/16'), 300), '10.1.1.44');
  });

  for (const text of ['auto', 'none', '10.50.0.0/24', '172.20.0.0/16', '192.168.77.16/28']) {
    test(`--pod-network=${text} is taken`, () => assert.ok(isPodNetworkWish(text)));
  }

  const wrong = ['', 'yes', '10.50.0.0', '10.50.0.1/24', '10.0.0.0/8', '10.50.0.0/29', '10.0.2.0/24', '10.0.0.0/16'];
  for (const text of [...wrong, '127.0.0.0/24', '224.0.0.0/24', 'fd00::/64', '10.50.0.0/24/1', '10.50.0.0/2x']) {
    test(`--pod-network=${text} is refused`, () => assert.equal(isPodNetworkWish(text), false));
  }
});
