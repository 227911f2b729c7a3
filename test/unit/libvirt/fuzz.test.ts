import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../../src/base/index.ts';
import { type Codec, decodeWith, encodeWith } from '../../../src/libvirt/codec.ts';
import { isLibvirtError, wireError } from '../../../src/libvirt/error.ts';
import { decodeEvent, type EventKind, eventTypes } from '../../../src/libvirt/events.ts';
import { headerBytes, type Packet, PacketSplitter, PacketType } from '../../../src/libvirt/frame.ts';
import { Program, procedures } from '../../../src/libvirt/procedures.ts';
import { RpcConnection } from '../../../src/libvirt/rpc-connection.ts';
import { collectStream } from '../../../src/libvirt/stream.ts';
import { type TypedParam, typedParams } from '../../../src/libvirt/typed-params.ts';
import { XdrError } from '../../../src/libvirt/xdr.ts';
import { FakeDaemon, packetBytes } from './fake-daemon.ts';

const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((array) => Buffer.from(array));
const replies = Object.entries(procedures).map(([name, { reply }]) => [name, reply as Codec<unknown>] as const);
const decoders = [
  ...replies,
  ['error', wireError] as const,
  ...Object.entries(eventTypes).map(([kind, { payload }]) => [kind, payload as Codec<unknown>] as const),
];

/** A value, or an `XdrError`: nothing else may come out of a decoder. */
function decodeOrRefuse(codec: Codec<unknown>, input: Buffer): void {
  try {
    decodeWith(codec, input);
  } catch (error) {
    assert.ok(error instanceof XdrError, String(error));
  }
}

test('random bytes give a value or an XdrError in every decoder', () => {
  fc.assert(
    fc.property(fc.constantFrom(...decoders), bytes(400), ([, codec], input) => decodeOrRefuse(codec, input)),
    { numRuns: 5_000 },
  );
});

test('words that lie about lengths and counts allocate no more than the bytes there are', () => {
  const word = fc.constantFrom(0, 1, 2, 255, 16_384, 262_144, 4_194_304, 0x7fffffff, 0xffffffff);
  const words = fc.array(word, { maxLength: 40 }).map((list) => {
    const input = Buffer.alloc(list.length * 4);
    for (const [i, each] of list.entries()) input.writeUInt32BE(each, i * 4);
    return input;
  });
  const before = process.memoryUsage().rss;
  fc.assert(
    fc.property(fc.constantFrom(...decoders), words, ([, codec], input) => decodeOrRefuse(codec, input)),
    { numRuns: 5_000 },
  );
  const grownMiB = (process.memoryUsage().rss - before) / 2 ** 20;
  assert.ok(grownMiB < 200, `${grownMiB} MiB`);
});

const number = { int: fc.integer(), uint: fc.nat(), llong: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }) };
const plain = { noNullPrototype: true };
const param: fc.Arbitrary<TypedParam> = fc.oneof(
  fc.record({ field: fc.string(), type: fc.constant('int' as const), value: number.int }, plain),
  fc.record({ field: fc.string(), type: fc.constant('uint' as const), value: number.uint }, plain),
  fc.record({ field: fc.string(), type: fc.constant('llong' as const), value: number.llong }, plain),
  fc.record({ field: fc.string(), type: fc.constant('double' as const), value: fc.double({ noNaN: true }) }, plain),
  fc.record({ field: fc.string(), type: fc.constant('boolean' as const), value: fc.boolean() }, plain),
  fc.record({ field: fc.string(), type: fc.constant('string' as const), value: fc.string({ unit: 'binary' }) }, plain),
);
const clean = param.filter(({ field, value }) => !field.includes('\0') && !String(value).includes('\0'));
const params = typedParams(100);

test('typed parameters come back as they were sent', () => {
  fc.assert(
    fc.property(fc.array(clean, { maxLength: 20 }), (list) => {
      assert.deepEqual(decodeWith(params, encodeWith(params, list)), list);
    }),
  );
});

test('a message that is cut anywhere is refused, and one changed byte gives a value or a refusal', () => {
  fc.assert(
    fc.property(fc.array(clean, { minLength: 1, maxLength: 5 }), fc.nat(), fc.nat(255), (list, position, byte) => {
      const whole = encodeWith(params, list);
      assert.throws(() => decodeWith(params, whole.subarray(0, position % whole.length)), XdrError);
      const changed = Buffer.from(whole);
      changed[position % whole.length] = byte;
      decodeOrRefuse(params, changed);
    }),
  );
});

test('random event messages never throw anything but an XdrError', () => {
  const kinds = Object.keys(eventTypes) as EventKind[];
  fc.assert(
    fc.property(fc.constantFrom(...kinds), bytes(200), (kind, input) => {
      try {
        decodeEvent(kind, input);
      } catch (error) {
        assert.ok(error instanceof XdrError);
      }
    }),
  );
});

test('a splitter that is fed random bytes holds at most twice what it was given', () => {
  const input = fc.array(bytes(300), { maxLength: 20 });
  fc.assert(
    fc.property(input, (chunks) => {
      const splitter = new PacketSplitter();
      let given = 0;
      try {
        for (const chunk of chunks) {
          given += chunk.length;
          for (const packet of splitter.push(chunk)) assert.ok(packet.payload.length <= given - headerBytes);
          assert.ok(splitter.reservedBytes <= Math.max(256, 2 * given));
        }
      } catch (error) {
        assert.ok(isLibvirtError(error, 'PROTOCOL_VIOLATION'));
      }
    }),
    { numRuns: 1_000 },
  );
});

let daemon: FakeDaemon;
before(async () => {
  daemon = await FakeDaemon.start();
});
after(() => daemon.remove());

const domain = { name: 'd', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };

/** A client with a call and a stream under way gets `garbage`, then the end. Everything must settle with an error. */
async function survives(garbage: (calls: readonly Packet[]) => Buffer): Promise<void> {
  const socket = connect(daemon.socketPath);
  const connection = new RpcConnection(
    { callTimeoutMs: 10_000 },
    { socket, clock: systemClock, onMessage: () => undefined },
  );
  const calls: Packet[] = [];
  const arrived = new Promise<void>((resolve) => {
    const hold = (_args: Buffer, _peer: unknown, call: Packet) => {
      calls.push(call);
      if (calls.length === 2) resolve();
      return undefined;
    };
    daemon.onRaw(procedures.connectGetUri.number, hold);
    daemon.onRaw(procedures.domainScreenshot.number, hold);
  });
  const results = Promise.allSettled([
    connection.call(procedures.connectGetUri, undefined),
    connection
      .openStream(procedures.domainScreenshot, { domain, screen: 0, flags: 0 })
      .then(({ stream }) => collectStream(stream, { maxBytes: 10_000, timeoutMs: 10_000 })),
  ]);
  await arrived;
  const { peer } = daemon;
  peer.socket.end(garbage(calls));
  for (const result of await results) {
    assert.ok(result.status === 'fulfilled' || isLibvirtError(result.reason), JSON.stringify(result));
  }
  await connection.closed;
  assert.ok(connection.reservedBytes < 2 ** 20);
}

test('a live peer that sends random bytes ends the connection, and every call and stream fails with a typed error', async () => {
  await fc.assert(
    fc.asyncProperty(bytes(2_000), (garbage) => survives(() => garbage)),
    { numRuns: 100 },
  );
});

test('a live peer that sends well-framed nonsense hangs and crashes nothing', async () => {
  const packet = fc.record({
    program: fc.constantFrom<number>(Program.REMOTE, Program.QEMU, Program.KEEPALIVE, 1),
    procedure: fc.constantFrom(110, 211, 318, 1, 2, -1, 9999),
    type: fc.constantFrom<number>(0, 1, 1, 1, 2, 3, 3, 3, 4, 6, 77),
    serial: fc.constantFrom(0, 1, 2, 3, 0xffffffff),
    status: fc.constantFrom(0, 1, 2, 3),
    payload: bytes(100),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(packet, { maxLength: 8 }), (packets) =>
      survives(() => Buffer.concat(packets.map((each) => packetBytes(each)))),
    ),
    { numRuns: 200 },
  );
});

test('a live peer that changes or cuts a right answer hangs and crashes nothing', async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(), fc.nat(255), fc.boolean(), (position, byte, cut) =>
      survives((calls) => {
        const whole = Buffer.concat(
          calls.map((call) =>
            packetBytes({ ...call, type: PacketType.REPLY, payload: Buffer.from('0000000361626300', 'hex') }),
          ),
        );
        const at = position % whole.length;
        if (cut) return whole.subarray(0, at);
        whole[at] = byte;
        return whole;
      }),
    ),
    { numRuns: 200 },
  );
});
