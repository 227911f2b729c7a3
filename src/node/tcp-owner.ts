import { readFile } from 'node:fs/promises';

const listening = '0A';
const established = '01';

/** Uid of the user whose program listens on this TCP port, on whatever address; undefined when nobody does, or it cannot be read. */
export async function portOwner(port: number): Promise<number | undefined> {
  for (const file of ['/proc/net/tcp', '/proc/net/tcp6']) {
    const owner = listenerUid(await readFile(file, 'latin1').catch(() => ''), port);
    if (owner !== undefined) return owner;
  }
  return undefined;
}

/** Uid of the user who has the other end of a connection over the IPv4 loopback address; undefined when it is gone. */
export async function peerOwner(connection: TcpPorts): Promise<number | undefined> {
  return clientUid(await readFile('/proc/net/tcp', 'latin1').catch(() => ''), connection);
}

/** As a server's socket names them. */
export interface TcpPorts {
  readonly localPort?: number | undefined;
  readonly remotePort?: number | undefined;
}

export function listenerUid(table: string, port: number): number | undefined {
  return rowsOf(table).find(({ state, local }) => state === listening && local.endsWith(hexPort(port)))?.uid;
}

/** The client's own row: its ports are those of the server, the other way round. */
export function clientUid(table: string, { localPort = 0, remotePort = 0 }: TcpPorts): number | undefined {
  const [client, server] = [`0100007F${hexPort(remotePort)}`, `0100007F${hexPort(localPort)}`];
  return rowsOf(table).find(
    ({ state, local, remote }) => state === established && local === client && remote === server,
  )?.uid;
}

/** Of the kernel's table (proc_pid_net(5)): `sl local_address rem_address st tx:rx tr:tm retrnsmt uid …`. */
function rowsOf(table: string) {
  return table
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .flatMap(([, local = '', remote = '', state, , , , uid]) =>
      uid === undefined ? [] : [{ local, remote, state, uid: Number(uid) }],
    );
}

function hexPort(port: number): string {
  return `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
}
