import { readFile } from 'node:fs/promises';
import { endianness } from 'node:os';

/** Who listens on this machine, and who is connected, by the kernel's tables of sockets (proc_pid_net(5)). */

type Protocol = 'tcp' | 'udp';
type ByteOrder = ReturnType<typeof endianness>;

const listening = '0A';
const established = '01';
/** A TCP socket that listens, a UDP socket that is not connected. */
const waiting: Readonly<Record<Protocol, string>> = { tcp: listening, udp: '07' };

/** Uid of the user whose program has this TCP port at 127.0.0.1 or ::1, or at all addresses; undefined when no user does, or it cannot be read. */
export async function portOwner(port: number): Promise<number | undefined> {
  return listenerUid(await readTables('tcp'), port);
}

/**
 * Uid of the user who has the other end of a connection over the IPv4 loopback address, made with a socket of whichever family;
 * undefined when it is gone.
 */
export async function peerOwner(connection: TcpPorts): Promise<number | undefined> {
  return clientUid(await readTables('tcp'), connection);
}

export type PortsByProtocol = Readonly<Record<Protocol, ReadonlySet<number>>>;

/** Whom a program of the machine is in the way: who wants a port at 127.0.0.1 alone, or at all IPv4 loopback addresses. */
type Wanted = '127.0.0.1' | '127.0.0.0/8';

/** Ports at which a program of the machine is reached there. */
export async function takenPorts(wanted: Wanted): Promise<PortsByProtocol> {
  const [tcp = '', udp = ''] = await Promise.all((['tcp', 'udp'] as const).map(readTables));
  return { tcp: listeningPorts('tcp', tcp, wanted), udp: listeningPorts('udp', udp, wanted) };
}

/** Of both families; one that the machine has not got is empty. */
async function readTables(protocol: Protocol): Promise<string> {
  const files = [`/proc/net/${protocol}`, `/proc/net/${protocol}6`];
  return (await Promise.all(files.map((file) => readFile(file, 'latin1').catch(() => '')))).join('');
}

/** As a server's socket names them. */
export interface TcpPorts {
  readonly localPort?: number | undefined;
  readonly remotePort?: number | undefined;
}

interface End {
  /** One word of 32 bits, or four; undefined: none that can be read. */
  readonly address: readonly number[] | undefined;
  readonly port: number;
}

const loopback = 0x7f00_0001;
const isAny = (words: readonly number[]) => words.every((word) => word === 0);
/** An address of IPv4, also as a socket of both families has it. */
function ipv4Of(words: readonly number[]): number | undefined {
  const [first = 0, second, third, fourth] = words;
  if (words.length === 1) return first;
  return first === 0 && second === 0 && third === 0xffff ? fourth : undefined;
}
const isIpv6Loopback = (words: readonly number[]) => words.length === 4 && isAny(words.slice(0, 3)) && words[3] === 1;
/** Of who wants a port at 127.0.0.1. */
const isInTheWay = (words: readonly number[]) => isAny(words) || isIpv6Loopback(words) || ipv4Of(words) === loopback;

/** `tables`: /proc/net/tcp and tcp6. A program that listens at another address of the machine is not in the way. */
export function listenerUid(tables: string, port: number, byteOrder = endianness()): number | undefined {
  return rowsOf(tables, byteOrder).find(
    ({ state, local }) => state === listening && local.port === port && local.address && isInTheWay(local.address),
  )?.uid;
}

/** `tables`: of one protocol, both families. */
export function listeningPorts(
  protocol: Protocol,
  tables: string,
  wanted: Wanted,
  byteOrder = endianness(),
): ReadonlySet<number> {
  const isReached = (words: readonly number[]) =>
    isInTheWay(words) || (wanted === '127.0.0.0/8' && (ipv4Of(words) ?? 0) >>> 24 === 127);
  const rows = rowsOf(tables, byteOrder).filter(
    ({ state, local }) => state === waiting[protocol] && local.address && isReached(local.address),
  );
  return new Set(rows.map(({ local }) => local.port));
}

/** The client's own row: its ports are those of the server, the other way round. A socket for both families has a mapped address. */
export function clientUid(
  tables: string,
  { localPort = 0, remotePort = 0 }: TcpPorts,
  byteOrder = endianness(),
): number | undefined {
  const isAt = ({ address, port }: End, wanted: number) =>
    port === wanted && address !== undefined && ipv4Of(address) === loopback;
  return rowsOf(tables, byteOrder).find(
    ({ state, local, remote }) => state === established && isAt(local, remotePort) && isAt(remote, localPort),
  )?.uid;
}

/** Without their headings: `sl local_address rem_address st tx:rx tr:tm retrnsmt uid …`. */
function rowsOf(table: string, byteOrder: ByteOrder) {
  return table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .flatMap(([number, local = '', remote = '', state, , , , uid]) =>
      uid === undefined || number === 'sl'
        ? []
        : [{ local: endOf(local, byteOrder), remote: endOf(remote, byteOrder), state, uid: Number(uid) }],
    );
}

/** The kernel prints an address as 32-bit words of the machine's byte order. */
function endOf(text: string, byteOrder: ByteOrder): End {
  const [hex = '', port = ''] = text.split(':');
  const isAddress = /^[\dA-F]+$/.test(hex) && (hex.length === 8 || hex.length === 32);
  const bytes = Buffer.from(isAddress ? hex : '', 'hex');
  const words = Array.from({ length: bytes.length / 4 }, (_, at) =>
    byteOrder === 'LE' ? bytes.readUInt32LE(at * 4) : bytes.readUInt32BE(at * 4),
  );
  return { address: words.length === 0 ? undefined : words, port: Number.parseInt(port, 16) };
}
