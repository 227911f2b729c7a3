import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { namesOf } from '../../../../src/standalone/pod-network/names.ts';
import { filterRules, withoutRules } from '../../../../src/standalone/pod-network/rules.ts';

const names = namesOf('/var/lib/virt-node');
const subnets = { ipv4: { address: '10.9.8.0', prefix: 24 }, ipv6: { address: 'fd00:0:0:1::', prefix: 64 } };
const none = { ipv4: [], ipv6: [] };
const lines = (text: string) => text.split('\n').map((line) => line.trim());

describe('rules of the pod network', () => {
  test('stand in one table of the node’s own, which is replaced as a whole', () => {
    const text = lines(filterRules(names, subnets, none));
    assert.deepEqual(text.slice(0, 3), [
      `table inet ${names.table}`,
      `delete table inet ${names.table}`,
      `table inet ${names.table} {`,
    ]);
    assert.deepEqual(text.filter((line) => /flush|^table|^delete/.test(line)).length, 3);
    for (const table of [names.table, names.serviceTable])
      assert.ok(withoutRules(names).includes(`delete table inet ${table}\n`));
  });

  test('hide pods behind the machine, and let others reach none', () => {
    const text = lines(filterRules(names, subnets, none));
    assert.ok(text.includes(`ip saddr 10.9.8.0/24 oifname != "${names.bridge}" masquerade`));
    assert.ok(text.includes(`ip6 saddr fd00:0:0:1::/64 oifname != "${names.bridge}" masquerade`));
    const [related, drop] = ['ct state established,related accept', 'drop'].map((end) =>
      text.indexOf(`oifname "${names.bridge}" ${end}`),
    );
    assert.ok(related !== undefined && drop !== undefined && related > 0 && drop > related);
  });

  test('without IPv6 nothing of it is forwarded', () => {
    const text = filterRules(names, { ipv4: subnets.ipv4 }, none);
    assert.match(text, /meta nfproto ipv6 drop/);
    assert.doesNotMatch(text, /ip6 saddr/);
  });

  test('links that were opened for pods forward for nothing else of this family', () => {
    const text = lines(filterRules(names, subnets, { ipv4: ['eth0', 'wlan0'], ipv6: ['eth0'] }));
    assert.ok(text.includes('iifname { "eth0", "wlan0" } meta nfproto ipv4 oifname != "vn-*" drop'));
    assert.ok(text.includes('iifname { "eth0" } meta nfproto ipv6 oifname != "vn-*" drop'));
  });

  test('two nodes of one machine have other bridges and tables', () => {
    const other = namesOf('/srv/node');
    assert.notEqual(other.bridge, names.bridge);
    assert.notEqual(other.table, names.table);
    assert.ok(names.bridge.length <= 15);
  });
});
