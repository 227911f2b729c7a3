import { readFile } from 'node:fs/promises';
import { endianness } from 'node:os';

const listening = '0A';
const established = '01';

type ByteOrder = ReturnType<typeof endianness>;

/** Uid of the user whose program has this TCP port at a loopback address, or at all of them; undefined when no user does, or it cannot be read. */
export async function portOwner(port: number): Promise<number | undefined> {
  return listenerUid(await readTables(), port);
}

/**
 * Uid of the user who has the other end of a connection over the IPv4 loopback address, made with a socket of whichever family;
 * undefined when it is gone.
 */
export async function peerOwner(connection: TcpPorts): Promise<number | undefined> {
  return clientUid(await readTables(), connection);
}

async function readTables(): Promise<string> {
  const files = ['/proc/net/tcp', '/proc/net/tcp6'];
  return (await Promise.all(files.map((file) => readFile(file, 'latin1').catch(() => '')))).join('');
}

/** As a server's socket names them. */
export interface TcpPorts {
  readonly localPort?: number | undefined;
  readonly remotePort?: number | undefined;
}

/** The kernel prints an address as 32-bit words of the machine's byte order. */
function hexAddress(words: readonly number[], byteOrder: ByteOrder): string {
  const bytes = Buffer.alloc(words.length * 4);
  for (const [index, word] of words.entries()) {
    if (byteOrder === 'LE') bytes.writeUInt32LE(word, index * 4);
    else bytes.writeUInt32BE(word, index * 4);
  }
  return bytes.toString('hex').toUpperCase();
}

const ipv4 = 0x7f00_0001;
const mapped = [0, 0, 0xffff, ipv4];
const toLoopback = [[ipv4], mapped, [0, 0, 0, 1], [0], [0, 0, 0, 0]];

/** `tables`: /proc/net/tcp and tcp6. A program that listens at another address of the machine is not in the way. */
export function listenerUid(tables: string, port: number, byteOrder = endianness()): number | undefined {
  const addresses = toLoopback.map((words) => hexAddress(words, byteOrder) + hexPort(port));
  return rowsOf(tables).find(({ state, local }) => state === listening && addresses.includes(local))?.uid;
}

/** The client's own row: its ports are those of the server, the other way round. A socket for both families has a mapped address. */
export function clientUid(
  tables: string,
  { localPort = 0, remotePort = 0 }: TcpPorts,
  byteOrder = endianness(),
): number | undefined {
  const ways = [[ipv4], mapped].map((words) => {
    const address = hexAddress(words, byteOrder);
    return `${address}${hexPort(remotePort)} ${address}${hexPort(localPort)}`;
  });
  return rowsOf(tables).find(({ state, local, remote }) => state === established && ways.includes(`${local} ${remote}`))
    ?.uid;
}

/** Of the kernel's tables (proc_pid_net(5)), without their headings: `sl local_address rem_address st tx:rx tr:tm retrnsmt uid …`. */
function rowsOf(table: string) {
  return table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .flatMap(([number, local = '', remote = '', state, , , , uid]) =>
      uid === undefined || number === 'sl' ? [] : [{ local, remote, state, uid: Number(uid) }],
    );
}

function hexPort(port: number): string {
  return `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
}
