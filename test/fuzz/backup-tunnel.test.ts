import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Duplex, duplexPair } from 'node:stream';
import fc from 'fast-check';
import { servedDisks } from '../../src/launcher/backup-tunnel/served-disks.ts';
import { LauncherError } from '../../src/launcher/errors.ts';
import { NbdError } from '../../src/launcher/nbd/client.ts';
import { dirtyBitmapContext } from '../../src/launcher/nbd/index.ts';
import {
  chunkMagic,
  chunkTypes,
  firstChunkError,
  firstOptionError,
  fixedNewstyle,
  greetingMagic,
  noZeroes,
  optionMagic,
  optionReplies,
  optionReplyMagic,
  options,
} from '../../src/launcher/nbd/protocol.ts';
import { FrameReader, frameOf, headerText, textOfHeader } from '../../src/nbd-tunnel/grpc-frames.ts';
import {
  askStreaming,
  type Extent,
  mapCall,
  openTunnel,
  readCall,
  serveTunnel,
  TunnelError,
} from '../../src/nbd-tunnel/index.ts';
import {
  bytesChange,
  changedText,
  cuts,
  fuzz,
  inPieces,
  judged,
  judgedLater,
  repeated,
  together,
} from './kit/index.ts';

/** How a backup in mode Pull is read: what QEMU serves to the launcher, and what launcher and exporter say to each other. */

const words = (...values: readonly number[]) => {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, 4 * index);
  return bytes;
};
const halves = (...values: readonly number[]) => Buffer.from(values.flatMap((value) => [value >> 8, value & 255]));
const long = (...values: readonly bigint[]) => {
  const bytes = Buffer.alloc(8 * values.length);
  for (const [index, value] of values.entries()) bytes.writeBigUInt64BE(value, 8 * index);
  return bytes;
};

const size = 1_000;
const bitmap = 'checkpoint';
const greeting = Buffer.concat([long(greetingMagic, optionMagic), halves(fixedNewstyle | noZeroes)]);

function reply(option: number, type: number, data: Buffer = Buffer.alloc(0)): Buffer {
  return Buffer.concat([long(optionReplyMagic), words(option, type, data.length), data]);
}
function chunk(type: number, data: Buffer, { isLast = true, cookie = 1 } = {}): Buffer {
  const head = [words(chunkMagic), halves(isLast ? 1 : 0, type), long(BigInt(cookie)), words(data.length)];
  return Buffer.concat([...head, data]);
}

const structured = reply(options.structuredReply, optionReplies.ack);
const contexts = ['base:allocation', dirtyBitmapContext(bitmap)].map((name, index) =>
  reply(options.setMetaContext, optionReplies.metaContext, Buffer.concat([words(index + 1), Buffer.from(name)])),
);
const chosen = [...contexts, reply(options.setMetaContext, optionReplies.ack)];
const fact = Buffer.concat([halves(0), long(BigInt(size)), halves(1)]);
const opened = [reply(options.go, optionReplies.info, fact), reply(options.go, optionReplies.ack)];
const refused = Buffer.concat([words(5), halves(2), Buffer.from('no')]);
const extents = (id: number, ...pairs: readonly number[]) =>
  chunk(chunkTypes.blockStatus, words(id, ...pairs), { isLast: false });
const none = chunk(chunkTypes.none, Buffer.alloc(0));
const read = [greeting, structured, ...opened];
const map = [greeting, structured, ...chosen, ...opened];

type Said = readonly [what: 'read' | 'map', ...said: readonly Buffer[]];

/** What a server says to one reader, whatever is asked. */
const honest: readonly Said[] = [
  ['read', ...read, chunk(chunkTypes.offsetData, Buffer.concat([long(0n), Buffer.alloc(size, 7)]))],
  [
    'read',
    ...read,
    chunk(chunkTypes.offsetData, Buffer.concat([long(600n), Buffer.alloc(400, 7)]), { isLast: false }),
    chunk(chunkTypes.offsetHole, Buffer.concat([long(0n), words(600)]), { isLast: false }),
    none,
  ],
  ['read', ...read, chunk(firstChunkError + 1, refused)],
  ['read', greeting, structured, reply(options.go, firstOptionError + 6, Buffer.from('no such export'))],
  ['map', ...map, extents(1, 600, 0, 400, 3), extents(2, 100, 1, 900, 0), none],
  ['map', ...map, extents(1, 300, 0), none, chunk(chunkTypes.blockStatus, words(1, 700, 2), { cookie: 2 })],
  ['map', greeting, structured, contexts[0] ?? greeting, ...chosen.slice(-1), ...opened, extents(1, size, 3), none],
  ['map', greeting, structured, ...chosen.slice(-1), ...opened],
];

/** Says the same to everybody who connects, and hangs up. */
class LyingServer {
  static #shared: Promise<LyingServer> | undefined;
  readonly socketPath: string;
  said: readonly Buffer[] = [];

  private constructor(socketPath: string) {
    this.socketPath = socketPath;
  }

  static shared(): Promise<LyingServer> {
    LyingServer.#shared ??= LyingServer.#start();
    return LyingServer.#shared;
  }

  static async #start(): Promise<LyingServer> {
    const directory = mkdtempSync(path.join(tmpdir(), 'nbd-'));
    process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
    const made = new LyingServer(path.join(directory, 's'));
    const server = createServer({ allowHalfOpen: true }, (socket) => made.#serve(socket));
    await new Promise<void>((resolve) => server.listen(made.socketPath, resolve));
    server.unref();
    return made;
  }

  #serve(socket: Socket): void {
    socket.on('error', () => undefined);
    socket.resume();
    for (const piece of this.said) socket.write(piece);
    socket.end();
  }
}

const isRefusedDisk = (error: unknown) => error instanceof NbdError || error instanceof LauncherError;

async function readDisk(what: 'read' | 'map', pieces: readonly Buffer[]): Promise<void> {
  const server = await LyingServer.shared();
  server.said = pieces;
  const disks = servedDisks(server.socketPath);
  const place = { exportName: 'disk', offset: 0, length: size };
  const { signal } = new AbortController();
  let at = 0;
  if (what === 'read') {
    await disks.read(
      place,
      async ({ offset, data }) => {
        assert.equal(offset, at);
        at += data.length;
      },
      signal,
    );
  } else {
    const give = async ({ extents: all, nextOffset }: { extents: readonly Extent[]; nextOffset: number }) => {
      const isInOrder = all.every(({ offset, length, description }) => {
        const isNext = offset === at && length > 0 && description !== '';
        at += length;
        return isNext;
      });
      assert.ok(isInOrder);
      assert.equal(nextOffset, at);
    };
    await disks.map({ ...place, bitmapName: bitmap }, give, signal);
  }
  // The size may be a lie, too; what was asked for is all that is given.
  assert.ok(at <= size, `${at}`);
}

const said = (...all: Said): Said => all;
const unchanged = (bytes: Uint8Array) => Buffer.from(bytes);
/** Of so many bytes, each for blocks of another kind than those before. */
function fragmented(id: number, bytes: number): Buffer {
  const payload = Buffer.alloc(4 + 8 * Math.floor(bytes / 8));
  payload.writeUInt32BE(id);
  for (let at = 4; at < payload.length; at += 8) payload.writeUInt32BE(1, at);
  for (let at = 8; at < payload.length; at += 16) payload.writeUInt32BE(1, at);
  return chunk(chunkTypes.blockStatus, payload, { isLast: false });
}
const many = (bytes: number, one: Buffer) => Array<Buffer>(Math.ceil(bytes / one.length)).fill(one);

fuzz('launcher: NBD of a server that lies', {
  input: fc.tuple(fc.constantFrom(...honest), bytesChange, cuts),
  parse: ([[what, ...all], change, places]) =>
    judgedLater(isRefusedDisk, () => readDisk(what, inPieces(change(Buffer.concat(all)), places))),
  growing: {
    'extents of a fragmented disk': (bytes) =>
      together(said('map', ...map, fragmented(1, bytes / 2), fragmented(2, bytes / 2), none), unchanged, []),
    'contexts that nobody asked for': (bytes) =>
      together(
        said('map', greeting, structured, ...many(bytes, contexts[0] ?? greeting), ...chosen, ...opened),
        unchanged,
        [],
      ),
    'chunks of nothing': (bytes) =>
      together(
        said('read', ...read, ...many(bytes, chunk(chunkTypes.none, Buffer.alloc(0), { isLast: false }))),
        unchanged,
        [],
      ),
  },
});

const isTunnelError = (error: unknown) => error instanceof TunnelError;
const someExtents = Array.from({ length: 3 }, (_, index) => {
  return { offset: index * 300, length: 300, flags: index, description: 'hole,zero' };
});
const codecs = [mapCall.request, mapCall.answer, readCall.request, readCall.answer] as const;
const messages = [
  mapCall.request.encode({ exportName: 'disk', bitmapName: bitmap, offset: 5, length: 2 ** 40 }),
  mapCall.answer.encode({ extents: someExtents, nextOffset: 900 }),
  readCall.request.encode({ exportName: 'disk', offset: 0, length: 0 }),
  readCall.answer.encode({ offset: 2 ** 33, data: Buffer.alloc(300, 7) }),
];
const bodies = messages.map((message) =>
  Buffer.concat([frameOf(message), frameOf(new Uint8Array()), frameOf(message)]),
);

/** What comes of a body, and whether it ended in the middle of something. */
function messagesOf(kind: number, pieces: readonly Buffer[]): { all: unknown[]; end: unknown } {
  const frames = new FrameReader();
  const all: unknown[] = [];
  try {
    for (const piece of pieces) for (const message of frames.push(piece)) all.push(codecs[kind]?.decode(message));
  } catch (error) {
    if (!isTunnelError(error)) throw error;
    return { all, end: (error as TunnelError).message };
  }
  return { all, end: frames.isTorn };
}

fuzz('exporter: gRPC of a launcher', {
  input: fc.tuple(fc.nat({ max: 3 }), bytesChange, cuts),
  parse: ([kind, change, places]) => {
    const body = change(bodies[kind] ?? Buffer.alloc(0));
    const whole = messagesOf(kind, [body]);
    assert.deepEqual(messagesOf(kind, inPieces(body, places)), whole);
    return typeof whole.end === 'boolean' && whole.all.length > 0 ? 'accepted' : 'refused';
  },
  growing: {
    'empty messages': (bytes) => together(0, () => Buffer.concat(many(bytes, frameOf(new Uint8Array()))), []),
    'a message in bytes': (bytes) =>
      together(
        3,
        () => frameOf(readCall.answer.encode({ offset: 0, data: Buffer.alloc(bytes) })),
        Array.from({ length: 9_999 }, (_, index) => index),
      ),
    'extents of one answer': (bytes) => {
      const all = Array.from({ length: bytes / 10 }, (_, index) => ({
        ...{ offset: index, length: 1 },
        flags: 1,
        description: 'd',
      }));
      return together(1, () => frameOf(mapCall.answer.encode({ extents: all, nextOffset: 0 })), []);
    },
    'a name that comes again': (bytes) =>
      together(0, () => frameOf(Buffer.concat(many(bytes, Buffer.from(messages[0] ?? [])))), []),
  },
});

fuzz('exporter: the last words of a launcher', {
  input: changedText([headerText('nobody serves disk: é %'), 'plain', '%E2%82%AC'], ['%', '%f', '%ff', '%00']),
  parse: (text) =>
    judged(isTunnelError, () => {
      const shown = textOfHeader(text);
      assert.ok(shown.length <= text.length);
      assert.match(headerText(text), /^[ -~]{0,3000}$/);
    }),
  refusesNothing: true,
  growing: { percents: repeated('%'), euros: repeated('%E2%82%AC') },
});

const request = { exportName: 'disk', offset: 0, length: 10 };
const handlers = {
  map: async () => undefined,
  read: async (_: unknown, give: (answer: { offset: number; data: Uint8Array }) => Promise<void>) => {
    for (let offset = 0; offset < 3; offset += 1) await give({ offset, data: Buffer.from('data') });
  },
};

/** All that `side` writes goes into the list as well. */
function noted(side: Duplex, list: Buffer[]): void {
  const write = side.write.bind(side) as (piece: Buffer, ...more: unknown[]) => boolean;
  side.write = ((piece: Buffer, ...more: unknown[]) => {
    list.push(Buffer.from(piece));
    return write(piece, ...more);
  }) as typeof side.write;
}

interface Spoken {
  readonly launcher: Buffer;
  readonly exporter: Buffer;
}
let spoken: Promise<Spoken> | undefined;

/** What the two say when all is well. */
async function conversation(): Promise<Spoken> {
  const [exporter, launcher] = duplexPair();
  const [ofExporter, ofLauncher]: Buffer[][] = [[], []];
  noted(exporter, ofExporter ?? []);
  noted(launcher, ofLauncher ?? []);
  const served = serveTunnel(launcher, handlers);
  const session = openTunnel(exporter);
  const answers = [];
  for await (const each of askStreaming(session, readCall, request, new AbortController().signal)) answers.push(each);
  assert.equal(answers.length, 3);
  session.destroy();
  exporter.destroy();
  launcher.destroy();
  await served;
  return { exporter: Buffer.concat(ofExporter ?? []), launcher: Buffer.concat(ofLauncher ?? []) };
}

function say(end: Duplex, pieces: readonly Buffer[]): void {
  end.on('error', () => undefined);
  end.resume();
  for (const piece of pieces) end.write(piece);
  end.end();
}

fuzz('exporter: HTTP/2 of a launcher', {
  input: fc.tuple(bytesChange, cuts),
  parse: async ([change, places]) => {
    spoken ??= conversation();
    const { launcher: said } = await spoken;
    const [exporter, launcher] = duplexPair();
    const session = openTunnel(exporter);
    session.on('error', () => undefined);
    say(launcher, inPieces(change(said), places));
    const signal = AbortSignal.timeout(5_000);
    const verdict = await judgedLater(isTunnelError, async () => {
      let count = 0;
      for await (const { data } of askStreaming(session, readCall, request, signal)) count += data.length;
      assert.ok(count <= said.length);
    });
    session.destroy();
    exporter.destroy();
    return verdict;
  },
});

fuzz('launcher: HTTP/2 of an exporter', {
  input: fc.tuple(bytesChange, cuts),
  parse: async ([change, places]) => {
    spoken ??= conversation();
    const { exporter: said } = await spoken;
    const [exporter, launcher] = duplexPair();
    let asked = 0;
    const read: typeof handlers.read = async (...given) => {
      asked += 1;
      await handlers.read(...given);
    };
    const served = serveTunnel(launcher, { ...handlers, read });
    say(exporter, inPieces(change(said), places));
    for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
    exporter.destroy();
    launcher.destroy();
    await served;
    return asked > 0 ? 'accepted' : 'refused';
  },
});
