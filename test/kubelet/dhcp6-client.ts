import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { logsDir, Program } from './program.ts';

const client = '/sbin/dhclient';
const server = '192.168.126.1:8088';

/** DHCPv6 gives an address alone: what a guest is told of routes it is told by cloud-init, as upstream's guide has it. */
const onLease = `#!/bin/sh
case "$reason" in BOUND6 | RENEW6 | REBIND6) ;; *) exit 0 ;; esac
/bin/ip address replace "$new_ip6_address/$new_ip6_prefixlen" dev "$interface"
/bin/ip -6 route replace fd10:0:2::1 dev "$interface"
/bin/ip -6 route replace default via fd10:0:2::1 dev "$interface"
`;

/**
 * For the guest, which has no client of its own: fetched from the node, so by IPv4 it has got out already. Its client for IPv4 takes all addresses
 * away when it begins, the link-local one too, without which there is no DHCPv6.
 */
export const getAddressByDhcp6 = `(
  until wget -q -T 5 -O /tmp/dhclient.tar http://${server}/dhclient.tar; do sleep 1; done
  tar xf /tmp/dhclient.tar -C /
  ip address replace fe80::2/64 dev eth0
  until dhclient -6 -1 -cf /dev/null -sf /etc/on-lease -lf /tmp/leases -pf /tmp/dhclient.pid eth0; do sleep 1; done
) >/tmp/dhclient.log 2>&1 &
`;

/** This machine's DHCP client, offered to guests. */
export async function serveDhcp6Client(dir: string): Promise<Program> {
  assert.ok(existsSync(client), 'apt-get install isc-dhcp-client');
  const [files, site] = [path.join(dir, 'dhclient'), path.join(dir, 'site')];
  for (const folder of [path.join(files, 'etc'), site]) mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(files, 'etc/on-lease'), onLease, { mode: 0o755 });
  const libraries = execFileSync('ldd', [client], { encoding: 'utf8' }).match(/(?<=\s)\/\S+/g) ?? [];
  const names = [client, ...libraries].map((name) => name.slice(1));
  const archive = path.join(site, 'dhclient.tar');
  execFileSync('tar', ['-chf', archive, '-C', '/', ...names, '-C', files, 'etc/on-lease']);
  const httpd = new Program('/bin/busybox', ['httpd', '-f', '-p', server, '-h', site], path.join(logsDir, 'httpd.log'));
  await httpd.start(() => undefined);
  return httpd;
}
