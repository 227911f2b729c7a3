import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Codec, decodeWith, encodeWith } from '../../src/libvirt/codec.ts';
import { cpuIndexes } from '../../src/libvirt/cpumap.ts';
import { formatLibvirtError, fromWireError, isLibvirtError, wireError } from '../../src/libvirt/error.ts';
import { decodeEvent, type EventKind, encodeEvent, eventTypes, type LibvirtEvent } from '../../src/libvirt/events.ts';
import { headerBytes, PacketSplitter } from '../../src/libvirt/frame.ts';
import { Program, procedures } from '../../src/libvirt/procedures.ts';
import { type TypedParam, typedParamMap, typedParams } from '../../src/libvirt/typed-params.ts';
import { XdrError } from '../../src/libvirt/xdr.ts';
import { packetBytes } from '../unit/libvirt/fake-daemon.ts';
import { bytesChange, changedBytes, cuts, fuzz, hostileText, inPieces, judged, together } from './kit/index.ts';

const isXdrError = (error: unknown) => error instanceof XdrError;
const isViolation = (error: unknown) => isLibvirtError(error, 'PROTOCOL_VIOLATION');

const domain = { name: 'default_vm1', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };
const someParams: readonly TypedParam[] = [
  { field: 'vcpu.current', type: 'uint', value: 2 },
  { field: 'cpu.time', type: 'ullong', value: 2n ** 63n },
  { field: 'balloon.offset', type: 'llong', value: -1n },
  { field: 'load.1m', type: 'double', value: 0.25 },
  { field: 'net.0.name', type: 'string', value: 'tap0' },
  { field: 'success', type: 'boolean', value: true },
];
const noText = { str1: undefined, str2: undefined, str3: undefined, network: undefined };
const someError = {
  code: 42,
  domainCode: 10,
  message: 'Domain not found',
  level: 2,
  domain: undefined,
  int1: -1,
  int2: -1,
  ...noText,
};

/** Anything that could be a reply: words that are counts, lengths, flags and text at the same time. */
const words = fc
  .array(fc.constantFrom(0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 8, 255, 16_384, 262_144, 4_194_304, 0x7fffffff, 0xffffffff), {
    maxLength: 60,
  })
  .map((list) => Buffer.concat(list.map((word) => Buffer.from(new Uint32Array([word]).buffer).swap32())));
const params = typedParams(100);
const samples = [
  encodeWith(params, someParams),
  encodeWith(wireError, someError),
  encodeEvent(1, { kind: 'lifecycle', domain, event: 0, detail: 0 }),
  encodeEvent(1, { kind: 'jobCompleted', domain, params: someParams }),
  encodeEvent(1, { kind: 'diskChange', domain, oldPath: '/a', newPath: undefined, alias: 'ua-root', reason: 1 }),
];
const xdr = fc.oneof(changedBytes(samples), words, fc.uint8Array({ maxLength: 400 }).map(Buffer.from));

const decoders = [
  ...Object.values(procedures).map(({ reply }) => reply as Codec<unknown>),
  wireError as Codec<unknown>,
  params as Codec<unknown>,
  ...Object.values(eventTypes).map(({ payload }) => payload as Codec<unknown>),
];

/** Zeros, as many as it takes: empty lists and texts, and numbers. */
function leastOf(decode: (bytes: Buffer) => unknown): Buffer {
  for (let length = 0; length < 1024; length += 4) {
    const bytes = Buffer.alloc(length);
    if (judged(isXdrError, () => void decode(bytes)) === 'accepted') return bytes;
  }
  throw new Error('no reply is all zeros');
}

const least = decoders.map((codec) => leastOf((bytes) => decodeWith(codec, bytes)));
const reply: fc.Arbitrary<readonly [number, Buffer]> = fc.oneof(
  fc.tuple(fc.nat({ max: decoders.length - 1 }), xdr),
  fc
    .tuple(fc.nat({ max: decoders.length - 1 }), bytesChange)
    .map(([which, change]) => [which, change(least[which] ?? Buffer.alloc(0))] as const),
);

fuzz('libvirt: replies, errors and parameters', {
  input: reply,
  parse: ([which, bytes]) => {
    const codec = decoders[which] as Codec<unknown>;
    let value: unknown;
    const verdict = judged(isXdrError, () => {
      value = decodeWith(codec, bytes);
    });
    if (verdict === 'refused') return verdict;
    // What was read can be written, and is then read as the same.
    const again = encodedAgain(codec, value);
    assert.deepEqual(again ? decodeWith(codec, again) : value, value);
    assert.ok((JSON.stringify(value, plainly)?.length ?? 0) < 64 * bytes.length + 1024);
    return verdict;
  },
  growing: {
    'a list of parameters': (bytes) => together(decoders.indexOf(params as Codec<unknown>), wordsOf(bytes, 0)),
    'every count as large as the message': (bytes) =>
      together(decoders.indexOf(params as Codec<unknown>), wordsOf(bytes, bytes / 4)),
  },
});

/** Undefined: it has a text with a NUL in it, which is read but never written. */
function encodedAgain(codec: Codec<unknown>, value: unknown): Buffer | undefined {
  try {
    return encodeWith(codec, value);
  } catch (error) {
    assert.equal(error instanceof XdrError && error.code, 'XDR_OUT_OF_RANGE');
    return undefined;
  }
}

const plainly = (_name: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);
const wordsOf = (bytes: number, word: number) => Buffer.from(new Uint32Array(bytes / 4).fill(word).buffer).swap32();

const number = { int: fc.integer(), uint: fc.nat(), llong: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }) };
const withoutNul = fc
  .oneof(hostileText(), fc.string({ unit: 'binary' }))
  .map((text) => Buffer.from(text.replaceAll('\0', '')).toString());
const param: fc.Arbitrary<TypedParam> = fc.oneof(
  fc.record({ field: withoutNul, type: fc.constant('int' as const), value: number.int }),
  fc.record({ field: withoutNul, type: fc.constant('uint' as const), value: number.uint }),
  fc.record({ field: withoutNul, type: fc.constant('llong' as const), value: number.llong }),
  fc.record({ field: withoutNul, type: fc.constant('double' as const), value: fc.double() }),
  fc.record({ field: withoutNul, type: fc.constant('boolean' as const), value: fc.boolean() }),
  fc.record({ field: withoutNul, type: fc.constant('string' as const), value: withoutNul }),
);

fuzz('libvirt: typed parameters come back as they were sent, and cut ones are refused', {
  input: fc.tuple(fc.array(param, { minLength: 1, maxLength: 20 }), fc.nat()),
  parse: ([list, cut]) => {
    const whole = encodeWith(params, list);
    assert.deepEqual(
      decodeWith(params, whole),
      list.map((each) => ({ ...each })),
    );
    assert.ok(typedParamMap(list).size <= list.length);
    assert.throws(() => decodeWith(params, whole.subarray(0, cut % whole.length)), XdrError);
    return 'accepted';
  },
  refusesNothing: true,
});

const kinds = Object.keys(eventTypes) as EventKind[];

const leastEvents = new Map(kinds.map((kind) => [kind, leastOf((zeros) => decodeEvent(kind, zeros))]));
const event: fc.Arbitrary<readonly [EventKind, Buffer]> = fc.oneof(
  fc.tuple(fc.constantFrom(...kinds), xdr),
  fc
    .tuple(fc.constantFrom(...kinds), bytesChange)
    .map(([kind, change]) => [kind, change(leastEvents.get(kind) ?? Buffer.alloc(0))] as const),
);

fuzz('libvirt: events', {
  input: event,
  parse: ([kind, bytes]) =>
    judged(isXdrError, () => {
      const { callbackId, event } = decodeEvent(kind, bytes);
      assert.equal(event.kind, kind);
      assert.deepEqual(decodeEvent(kind, encodeEvent(callbackId, event as LibvirtEvent)).event, event);
    }),
});

fuzz('libvirt: error records in words', {
  input: changedBytes([encodeWith(wireError, someError)]),
  parse: (bytes) =>
    judged(isXdrError, () => {
      const text = formatLibvirtError(fromWireError(decodeWith(wireError, bytes)));
      assert.ok(text.length < 64 * bytes.length + 1024);
    }),
});

const packets = [
  packetBytes({ program: Program.REMOTE, procedure: 110, type: 1, serial: 1, payload: encodeWith(params, someParams) }),
  packetBytes({ program: Program.KEEPALIVE, procedure: 1, type: 2 }),
  packetBytes({
    program: Program.REMOTE,
    procedure: 211,
    type: 3,
    serial: 2,
    status: 2,
    payload: Buffer.alloc(300, 7),
  }),
];
const streams = [...packets, Buffer.concat(packets), Buffer.concat([...packets, ...packets])];

/** What a splitter gives, and whether it refused the rest. */
function split(pieces: readonly Buffer[]): { readonly given: unknown[]; readonly refused: boolean } {
  const splitter = new PacketSplitter();
  const given: unknown[] = [];
  let received = 0;
  try {
    for (const piece of pieces) {
      received += piece.length;
      for (const packet of splitter.push(piece)) {
        assert.ok(packet.payload.length <= received - headerBytes);
        given.push({ ...packet, payload: packet.payload.toString('hex') });
      }
      assert.ok(splitter.reservedBytes <= Math.max(256, 2 * received));
    }
  } catch (error) {
    if (!isViolation(error)) throw error;
    return { given, refused: true };
  }
  return { given, refused: false };
}

fuzz('libvirt: packets, wherever their bytes are cut', {
  input: fc.tuple(changedBytes(streams), cuts) as fc.Arbitrary<readonly [Buffer, readonly number[]]>,
  parse: ([bytes, places]) => {
    const whole = split([bytes]);
    assert.deepEqual(split(inPieces(bytes, places)), whole);
    return whole.refused ? 'refused' : 'accepted';
  },
  growing: {
    'small packets': (bytes) => together(Buffer.concat(Array(Math.ceil(bytes / 28)).fill(packets[1])), []),
    'one packet in a thousand pieces': (bytes) =>
      together(
        packetBytes({ payload: Buffer.alloc(bytes) }),
        Array.from({ length: 1000 }, (_, index) => index * 10),
      ),
  },
});

fuzz('libvirt: bitmaps of CPUs', {
  input: fc.uint8Array({ maxLength: 2048 }),
  parse: (map) => {
    const indexes = cpuIndexes(map);
    assert.ok(indexes.length <= map.length * 8 && indexes.every((index) => index < map.length * 8));
    return 'accepted';
  },
  refusesNothing: true,
});
