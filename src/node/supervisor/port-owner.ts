import { readFile } from 'node:fs/promises';

const listening = '0A';

/** Uid of the user whose program listens on this TCP port, on whatever address; undefined when nobody does, or it cannot be read. */
export async function portOwner(port: number): Promise<number | undefined> {
  for (const file of ['/proc/net/tcp', '/proc/net/tcp6']) {
    const owner = listenerUid(await readFile(file, 'latin1').catch(() => ''), port);
    if (owner !== undefined) return owner;
  }
  return undefined;
}

/** Of the kernel's table (proc_pid_net(5)): `sl local_address rem_address st tx:rx tr:tm retrnsmt uid …`. */
export function listenerUid(table: string, port: number): number | undefined {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  for (const line of table.split('\n').slice(1)) {
    const [, local = '', , state, , , , uid] = line.trim().split(/\s+/);
    if (state === listening && local.endsWith(wanted)) return Number(uid);
  }
  return undefined;
}
