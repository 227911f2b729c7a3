import { connect, type Socket } from 'node:net';
import { CodedError, errorMessage } from '../../base/index.ts';
import { ByteReader } from './byte-reader.ts';
import {
  chunkHeadBytes,
  chunkTypes,
  commands,
  contextsOf,
  exportInfo,
  exportOf,
  firstChunkError,
  firstOptionError,
  fixedNewstyle,
  greetingMagic,
  noZeroes,
  optionMagic,
  optionReplies,
  optionReplyBytes,
  optionRequest,
  options,
  readChunkHead,
  readOptionReply,
  requestOf,
} from './protocol.ts';

/** `UNREACHABLE`: nobody listens, or the connection has ended; `PROTOCOL`: what came is no NBD; `REFUSED`: the server says why. */
export class NbdError extends CodedError<'UNREACHABLE' | 'PROTOCOL' | 'REFUSED'> {}

export interface NbdTarget {
  readonly socketPath: string;
  readonly exportName: string;
  /** What is to be known of blocks; REFUSED where the server does not know one of them. */
  readonly contexts: readonly string[];
  /** What is wanted where it is known. */
  readonly optional?: readonly string[];
}

/** So many bytes from where the one before has ended. */
export interface BlockExtent {
  readonly length: number;
  readonly flags: number;
}

interface Chunk {
  readonly type: number;
  readonly payload: Buffer;
}

/** Of a part of an answer: QEMU tells of 131,072 extents at most, and nobody reads as much at once. */
const longestPayload = 4 * 1024 * 1024;
/** Of a fact about an export, or the name of a context. */
const longestFact = 64 * 1024;
/** Facts of one option. */
const mostFacts = 64;

/** One export of a server, asked one thing after the other. */
export class NbdClient {
  /** Bytes. */
  readonly size: number;
  readonly #socket: Socket;
  readonly #bytes: ByteReader;
  readonly #contexts: ReadonlyMap<number, string>;
  #cookie = 0;

  private constructor(socket: Socket, bytes: ByteReader, facts: { size: number; contexts: Map<number, string> }) {
    this.#socket = socket;
    this.#bytes = bytes;
    this.size = facts.size;
    this.#contexts = facts.contexts;
  }

  /** Throws NbdError, and the reason of the signal, which ends the client, too. */
  static async connect(target: NbdTarget, signal: AbortSignal): Promise<NbdClient> {
    signal.throwIfAborted();
    const socket = connect(target.socketPath);
    const end = () => socket.destroy();
    signal.addEventListener('abort', end, { once: true });
    socket.once('close', () => signal.removeEventListener('abort', end));
    const bytes = new ByteReader(socket);
    try {
      await greet(socket, bytes);
      const contexts = await negotiate(socket, bytes, target);
      const size = await open(socket, bytes, target.exportName);
      return new NbdClient(socket, bytes, { size, contexts });
    } catch (error) {
      socket.destroy();
      signal.throwIfAborted();
      if (error instanceof NbdError) throw error;
      throw new NbdError('UNREACHABLE', `nobody serves ${target.exportName}: ${errorMessage(error)}`, { cause: error });
    }
  }

  /** Throws NbdError. */
  async read(offset: number, length: number): Promise<Buffer> {
    const found = Buffer.alloc(length);
    let bytes = 0;
    for await (const { type, payload } of this.#ask(commands.read, offset, length)) {
      if (type === chunkTypes.none) continue;
      const at = Number(payload.readBigUInt64BE()) - offset;
      const isHole = type === chunkTypes.offsetHole;
      if (!isHole && type !== chunkTypes.offsetData) throw new NbdError('PROTOCOL', `a read is answered with ${type}`);
      const size = isHole ? payload.readUInt32BE(8) : payload.length - 8;
      if (at < 0 || at + size > length) throw new NbdError('PROTOCOL', 'bytes came that were not asked for');
      if (!isHole) payload.copy(found, at, 8);
      bytes += size;
    }
    if (bytes !== length) throw new NbdError('PROTOCOL', `${bytes} of ${length} bytes came`);
    return found;
  }

  /** What is known of blocks from there on, by context; it may be less than what was asked for, and more than nothing. Throws NbdError. */
  async blockStatus(offset: number, length: number): Promise<ReadonlyMap<string, readonly BlockExtent[]>> {
    const found = new Map<string, readonly BlockExtent[]>();
    for await (const { type, payload } of this.#ask(commands.blockStatus, offset, length)) {
      if (type === chunkTypes.none) continue;
      const context = type === chunkTypes.blockStatus ? this.#contexts.get(payload.readUInt32BE()) : undefined;
      if (context === undefined)
        throw new NbdError('PROTOCOL', 'the status of blocks came in a form that was not asked for');
      const extents: BlockExtent[] = [];
      for (let at = 4; at + 8 <= payload.length; at += 8)
        extents.push({ length: payload.readUInt32BE(at), flags: payload.readUInt32BE(at + 4) });
      found.set(context, extents);
    }
    return found;
  }

  close(): void {
    if (this.#socket.destroyed) return;
    this.#socket.end(requestOf({ command: commands.disconnect, cookie: 0, offset: 0, length: 0 }));
    this.#socket.destroySoon();
  }

  async *#ask(command: number, offset: number, length: number): AsyncGenerator<Chunk> {
    const cookie = ++this.#cookie;
    this.#socket.write(requestOf({ command, cookie, offset, length }));
    let refusal: string | undefined;
    for (let isLast = false; !isLast; ) {
      const head = readChunkHead(await this.#exactly(chunkHeadBytes));
      if (head?.cookie !== BigInt(cookie) || head.length > longestPayload)
        throw new NbdError('PROTOCOL', 'an answer is none of structured replies');
      const payload = await this.#exactly(head.length);
      isLast = head.isLast;
      if (head.type >= firstChunkError) refusal ??= refusalIn(payload);
      else if (isTooShort(head.type, payload)) throw new NbdError('PROTOCOL', 'an answer is too short');
      else yield { type: head.type, payload };
    }
    if (refusal !== undefined) throw new NbdError('REFUSED', refusal);
  }

  async #exactly(bytes: number): Promise<Buffer> {
    try {
      return await this.#bytes.exactly(bytes);
    } catch (cause) {
      throw new NbdError('UNREACHABLE', `the disk is not served any more: ${errorMessage(cause)}`, { cause });
    }
  }
}

function isTooShort(type: number, payload: Buffer): boolean {
  const least: Readonly<Record<number, number>> = {
    [chunkTypes.offsetData]: 8,
    [chunkTypes.offsetHole]: 12,
    [chunkTypes.blockStatus]: 4,
  };
  return payload.length < (least[type] ?? 0);
}

/** Number of the error, length of the text, text. */
function refusalIn(payload: Buffer): string {
  if (payload.length < 6) return 'the server refuses it';
  const text = payload.subarray(6, 6 + payload.readUInt16BE(4)).toString();
  return `the server refuses it (errno ${payload.readUInt32BE()}${text && `: ${text}`})`;
}

async function greet(socket: Socket, bytes: ByteReader): Promise<void> {
  const greeting = await bytes.exactly(18);
  const isNbd = greeting.readBigUInt64BE() === greetingMagic && greeting.readBigUInt64BE(8) === optionMagic;
  if (!isNbd || (greeting.readUInt16BE(16) & fixedNewstyle) === 0)
    throw new NbdError('PROTOCOL', 'what answers is no NBD server of this age');
  const flags = Buffer.alloc(4);
  flags.writeUInt32BE(fixedNewstyle | (greeting.readUInt16BE(16) & noZeroes));
  socket.write(flags);
}

/** The contexts that the server has chosen, by number. */
async function negotiate(
  socket: Socket,
  bytes: ByteReader,
  { exportName, contexts, optional = [] }: NbdTarget,
): Promise<Map<number, string>> {
  await choose(socket, bytes, options.structuredReply);
  const found = new Map<number, string>();
  const wanted = [...contexts, ...optional];
  if (wanted.length === 0) return found;
  await choose(socket, bytes, options.setMetaContext, contextsOf(exportName, wanted), (type, data) => {
    if (type === optionReplies.metaContext && data.length >= 4)
      found.set(data.readUInt32BE(), data.subarray(4).toString());
  });
  const missing = contexts.filter((context) => ![...found.values()].includes(context));
  if (missing.length === 0) return found;
  throw new NbdError('REFUSED', `nothing is known of ${missing.join(', ')} of ${exportName}`);
}

async function open(socket: Socket, bytes: ByteReader, exportName: string): Promise<number> {
  let size: number | undefined;
  await choose(socket, bytes, options.go, exportOf(exportName), (type, data) => {
    if (type === optionReplies.info && data.length >= 12 && data.readUInt16BE() === exportInfo)
      size = Number(data.readBigUInt64BE(2));
  });
  if (size === undefined || !Number.isSafeInteger(size)) throw new NbdError('PROTOCOL', 'the export has no size');
  return size;
}

/** One option, with all that is said to it. Throws NbdError when it is refused. */
async function choose(
  socket: Socket,
  bytes: ByteReader,
  option: number,
  data?: Buffer,
  note: (type: number, data: Buffer) => void = () => undefined,
): Promise<void> {
  socket.write(optionRequest(option, data));
  for (let facts = 0; facts <= mostFacts; facts++) {
    const reply = readOptionReply(await bytes.exactly(optionReplyBytes));
    if (reply?.option !== option || reply.length > longestFact)
      throw new NbdError('PROTOCOL', 'an option is answered with something else');
    const payload = await bytes.exactly(reply.length);
    if (reply.type >= firstOptionError)
      throw new NbdError(
        'REFUSED',
        payload.toString() || `the server refuses option ${option} (${reply.type - firstOptionError})`,
      );
    if (reply.type === optionReplies.ack) return;
    note(reply.type, payload);
  }
  throw new NbdError('PROTOCOL', `more than ${mostFacts} facts came as the answer to one option`);
}
