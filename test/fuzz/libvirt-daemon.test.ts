import assert from 'node:assert/strict';
import { connect } from 'node:net';
import fc from 'fast-check';
import { systemClock } from '../../src/base/index.ts';
import { isLibvirtError } from '../../src/libvirt/error.ts';
import { type Packet, PacketType } from '../../src/libvirt/frame.ts';
import { Program, procedures } from '../../src/libvirt/procedures.ts';
import { RpcConnection } from '../../src/libvirt/rpc-connection.ts';
import { collectStream } from '../../src/libvirt/stream.ts';
import { errorPayload, FakeDaemon, type Peer, packetBytes } from '../unit/libvirt/fake-daemon.ts';
import { cuts, fuzz, inPieces, type Verdict } from './kit/index.ts';

const domain = { name: 'd', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };
const started = FakeDaemon.start;
let daemon: Promise<FakeDaemon> | undefined;

/** What a daemon may say to a call that is under way, in any order and at any time. */
interface Word {
  readonly to: 'call' | 'stream' | 'nobody';
  readonly type: number;
  readonly status: number;
  readonly procedure: number | undefined;
  readonly program: number | undefined;
  readonly serial: number | undefined;
  readonly payload: Buffer;
  /** What the length word lies by. */
  readonly lie: number;
}

const right = Buffer.from('0000000361626300', 'hex');
const payload = fc.oneof(
  fc.constantFrom(
    right,
    Buffer.alloc(0),
    errorPayload(38, 'no'),
    errorPayload(42, 'x'.repeat(500)),
    Buffer.alloc(5_000, 1),
  ),
  fc.uint8Array({ maxLength: 100 }).map(Buffer.from),
);
const word: fc.Arbitrary<Word> = fc.record({
  to: fc.constantFrom('call', 'stream', 'stream', 'nobody'),
  type: fc.constantFrom(0, 1, 1, 1, 2, 3, 3, 3, 4, 5, 6, 77),
  status: fc.constantFrom(0, 0, 0, 1, 2, 2, 3),
  procedure: fc.option(fc.constantFrom(1, 2, -1, 318, 348, 9999), { nil: undefined, freq: 8 }),
  program: fc.option(fc.constantFrom(Program.QEMU, Program.KEEPALIVE, 1), { nil: undefined, freq: 8 }),
  serial: fc.option(fc.constantFrom(0, 1, 3, 0xffffffff), { nil: undefined, freq: 8 }),
  payload,
  lie: fc.constantFrom(...Array(30).fill(0), -4, 1, 1000, 2 ** 24),
});

function bytesOf({ to, lie, ...word }: Word, calls: readonly Packet[]): Buffer {
  const call = to === 'nobody' ? undefined : calls[to === 'call' ? 0 : 1];
  const { type, status, payload } = word;
  const { program = call?.program, procedure = call?.procedure, serial = call?.serial } = word;
  const bytes = packetBytes({
    ...(program !== undefined && { program }),
    ...(procedure !== undefined && { procedure }),
    ...(serial !== undefined && { serial }),
    ...{ type, status, payload },
  });
  bytes.writeUInt32BE(bytes.length + lie, 0);
  return bytes;
}

/** A client with a call and a stream under way is told `words`, then the connection ends. All must settle, with typed errors. */
async function reported(words: readonly Word[], places: readonly number[]): Promise<Verdict> {
  daemon ??= started();
  const { socketPath, ...rest } = await prepared(await daemon);
  const socket = connect(socketPath);
  const connection = new RpcConnection(
    { callTimeoutMs: 10_000 },
    { socket, clock: systemClock, onMessage: () => undefined },
  );
  const results = Promise.allSettled([
    connection.call(procedures.connectGetUri, undefined),
    connection
      .openStream(procedures.domainScreenshot, { domain, screen: 0, flags: 0 })
      .then(({ stream }) => collectStream(stream, { maxBytes: 10_000, timeoutMs: 10_000 })),
  ]);
  const { calls, peer } = await rest.arrived;
  for (const piece of inPieces(Buffer.concat(words.map((each) => bytesOf(each, calls))), places))
    peer.socket.write(piece);
  peer.socket.end();
  const settled = await results;
  for (const result of settled) {
    assert.ok(
      result.status === 'fulfilled' || isLibvirtError(result.reason),
      String(Reflect.get(result, 'reason')?.stack),
    );
  }
  await connection.closed;
  assert.ok(connection.reservedBytes < 2 ** 20);
  return settled.some(({ status }) => status === 'fulfilled') ? 'accepted' : 'refused';
}

interface Arrived {
  readonly calls: readonly Packet[];
  readonly peer: Peer;
}

async function prepared(
  fake: FakeDaemon,
): Promise<{ readonly socketPath: string; readonly arrived: Promise<Arrived> }> {
  fake.peers.splice(0);
  const arrived = new Promise<Arrived>((resolve) => {
    const seen: Packet[] = [];
    const hold = (_args: Buffer, peer: Peer, call: Packet) => {
      seen.push(call);
      if (seen.length === 2) resolve({ calls: seen.sort((a, b) => a.procedure - b.procedure), peer });
      return undefined;
    };
    fake.onRaw(procedures.connectGetUri.number, hold);
    fake.onRaw(procedures.domainScreenshot.number, hold);
  });
  return { socketPath: fake.socketPath, arrived };
}

const goodReply: Word = {
  ...{ to: 'call', type: PacketType.REPLY, status: 0, payload: right, lie: 0 },
  ...{ procedure: undefined, program: undefined, serial: undefined },
};

fuzz('libvirt: a client whose daemon lies', {
  input: fc.tuple(
    fc.oneof(
      fc.array(word, { maxLength: 10 }),
      fc.array(word, { maxLength: 5 }).map((all) => [goodReply, ...all]),
    ),
    cuts,
  ),
  parse: ([words, places]) => reported(words, places),
});
