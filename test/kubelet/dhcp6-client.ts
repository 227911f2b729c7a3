import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import path from 'node:path';

const client = '/sbin/dhclient';
const server = { host: '192.168.126.1', port: 8088 };

/** DHCPv6 gives an address alone: what a guest is told of routes it is told by cloud-init, as upstream's guide has it. */
const onLease = `#!/bin/sh
export PATH=/bin:/sbin
case "$reason" in BOUND6 | RENEW6 | REBIND6) ;; *) exit 0 ;; esac
ip address replace "$new_ip6_address/$new_ip6_prefixlen" dev "$interface"
ip -6 route replace fd10:0:2::1 dev "$interface"
ip -6 route replace default via fd10:0:2::1 dev "$interface"
`;

/**
 * For the guest, which has no client of its own: fetched from the node, so by IPv4 it has got out already. Its client for IPv4 takes all addresses
 * away when it begins, the link-local one too, without which there is no DHCPv6. By `nc`: `wget` of the guest's static busybox crashes.
 */
export const getAddressByDhcp6 = `(
  until nc -w 5 ${server.host} ${server.port} </dev/null >/tmp/dhclient.tar && tar xf /tmp/dhclient.tar -C /; do sleep 1; done
  ip address replace fe80::2/64 dev eth0
  until dhclient -6 -1 -cf /dev/null -sf /etc/on-lease -lf /tmp/leases -pf /tmp/dhclient.pid eth0; do sleep 1; done
) >/tmp/dhclient.log 2>&1 &
`;

/** This machine's DHCP client, offered to guests: who connects gets the archive. */
export async function serveDhcp6Client(dir: string): Promise<Server> {
  assert.ok(existsSync(client), 'apt-get install isc-dhcp-client');
  const files = path.join(dir, 'dhclient');
  mkdirSync(path.join(files, 'etc'), { recursive: true });
  writeFileSync(path.join(files, 'etc/on-lease'), onLease, { mode: 0o755 });
  const libraries = execFileSync('ldd', [client], { encoding: 'utf8' }).match(/(?<=\s)\/\S+/g) ?? [];
  const names = [client, ...libraries].map((name) => name.slice(1));
  const file = path.join(dir, 'dhclient.tar');
  execFileSync('tar', ['-chf', file, '-C', '/', ...names, '-C', files, 'etc/on-lease']);
  const archive = readFileSync(file);
  const listening = createServer((socket) => socket.on('error', () => undefined).end(archive)).listen(server);
  await once(listening, 'listening');
  return listening;
}
