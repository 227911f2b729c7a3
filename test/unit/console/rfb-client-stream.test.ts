import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { RfbClientStream } from '../../../src/console/rfb-client-stream.ts';

const u16 = (value: number) => [value >> 8, value & 255];
const u32 = (value: number) => [...u16(value >>> 16), ...u16(value & 65_535)];
const bytes = (...values: number[]) => Buffer.from(values);

const handshake = Buffer.concat([Buffer.from('RFB 003.008\n'), bytes(1)]);
const pixelFormat = bytes(0, ...Array<number>(19).fill(7));
const encodings = (...list: number[]) => bytes(2, 0, ...u16(list.length), ...list.flatMap(u32));
const updateRequest = bytes(3, 1, 0, 0, 0, 0, 2, 128, 1, 224);
const key = (isDown: boolean, symbol: number) => bytes(4, isDown ? 1 : 0, 0, 0, ...u32(symbol));
const pointer = (buttons: number) => bytes(5, buttons, 0, 10, 0, 20);
const cutText = (text: string) => Buffer.concat([bytes(6, 0, 0, 0, ...u32(text.length)), Buffer.from(text)]);
const extendedCutText = (length: number) =>
  Buffer.concat([bytes(6, 0, 0, 0, ...u32(-length >>> 0)), Buffer.alloc(length, 9)]);
const fence = (length: number) => bytes(248, 0, 0, 0, 0, 0, 0, 1, length, ...Array<number>(length).fill(5));
const continuous = bytes(150, 1, 0, 0, 0, 0, 2, 128, 1, 224);
const xvp = bytes(250, 0, 1, 2);
const desktopSize = (screens: number) => bytes(251, 0, 4, 0, 3, 0, screens, 0, ...Array<number>(16 * screens).fill(3));
const gii = bytes(253, 0x82, 0, 3, 1, 2, 3);
const qemuKey = (isDown: boolean, symbol: number) => bytes(255, 0, 0, isDown ? 1 : 0, ...u32(symbol), ...u32(30));
const qemuAudio = bytes(255, 1, 0, 0);
const qemuAudioFormat = bytes(255, 1, 0, 2, 3, 2, 0, 0, 172, 68);

const seen = [
  pixelFormat,
  updateRequest,
  continuous,
  fence(0),
  fence(64),
  encodings(),
  encodings(0, -224),
  qemuAudio,
  qemuAudioFormat,
];
const acting = [
  key(true, 97),
  key(false, 97),
  pointer(1),
  cutText(''),
  cutText('a'),
  cutText('x'.repeat(3000)),
  extendedCutText(5),
  extendedCutText(700),
  xvp,
  desktopSize(0),
  desktopSize(3),
  gii,
  qemuKey(true, 65),
];

function pushed(stream: RfbClientStream, all: Buffer, sizes: readonly number[] = []): Buffer {
  const passed: Buffer[] = [];
  let at = 0;
  for (const size of [...sizes, all.length]) {
    passed.push(...stream.push(all.subarray(at, at + size)));
    at += size;
  }
  return Buffer.concat(passed);
}

const chunkSizes = fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 200 });
const messages = fc.array(
  fc.constantFrom(
    ...seen.map((bytesOf) => ({ bytesOf, acts: false })),
    ...acting.map((bytesOf) => ({ bytesOf, acts: true })),
  ),
  {
    maxLength: 30,
  },
);

test('what a viewer does never reaches the guest, what it sees with does, however the bytes are cut', () => {
  fc.assert(
    fc.property(messages, chunkSizes, (list, sizes) => {
      const stream = new RfbClientStream({ isViewer: true, staysWriter: false });
      const all = Buffer.concat([handshake, bytes(0), ...list.map(({ bytesOf }) => bytesOf)]);
      const expected = [handshake, bytes(1), ...list.flatMap(({ bytesOf, acts }) => (acts ? [] : [bytesOf]))];
      assert.deepEqual(pushed(stream, all, sizes), Buffer.concat(expected));
      assert.equal(stream.problem, undefined);
    }),
  );
});

test('all that a writer sends reaches the guest as it is, but for the wish to be alone', () => {
  fc.assert(
    fc.property(messages, chunkSizes, fc.boolean(), (list, sizes, staysWriter) => {
      const stream = new RfbClientStream({ isViewer: false, staysWriter });
      const sent = list.map(({ bytesOf }) => bytesOf);
      assert.deepEqual(
        pushed(stream, Buffer.concat([handshake, bytes(0), ...sent]), sizes),
        Buffer.concat([handshake, bytes(1), ...sent]),
      );
    }),
  );
});

test('garbage does not throw, and a viewer that sent what cannot be followed does not act any more', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 })), (chunks) => {
      const stream = new RfbClientStream({ isViewer: true, staysWriter: false });
      pushed(stream, Buffer.concat([handshake, bytes(1)]));
      for (const chunk of chunks) stream.push(Buffer.from(chunk));
      // Of few chunks: they end within a message, which the next bytes belong to.
      fc.pre(stream.problem !== undefined);
      assert.deepEqual(stream.push(key(true, 97)), []);
    }),
  );
});

test('a viewer that becomes the writer mid-message acts from its next message on', () => {
  const stream = new RfbClientStream({ isViewer: true, staysWriter: false });
  pushed(stream, Buffer.concat([handshake, bytes(1)]));
  const text = cutText('x'.repeat(100));
  assert.deepEqual(pushed(stream, text.subarray(0, 50)), Buffer.alloc(0));
  stream.becomeWriter();
  assert.deepEqual(pushed(stream, Buffer.concat([text.subarray(50), key(true, 97)])), key(true, 97));
});

test('a writer that becomes a viewer lets go of all keys and buttons it holds', () => {
  const stream = new RfbClientStream({ isViewer: false, staysWriter: false });
  const sent = [key(true, 97), key(true, 98), key(false, 97), qemuKey(true, 65), pointer(4)];
  pushed(stream, Buffer.concat([handshake, bytes(1), ...sent]));
  assert.deepEqual(
    Buffer.concat(stream.becomeViewer()),
    Buffer.concat([key(false, 98), qemuKey(false, 65), pointer(0)]),
  );
  assert.deepEqual(pushed(stream, Buffer.concat([key(true, 99), updateRequest])), updateRequest);
  assert.deepEqual(stream.becomeViewer(), [], 'once');
});

test('a writer that becomes a viewer in the middle of a message ends that message first', () => {
  const stream = new RfbClientStream({ isViewer: false, staysWriter: false });
  const text = cutText('y'.repeat(100));
  pushed(stream, Buffer.concat([handshake, bytes(1), key(true, 97), text.subarray(0, 60)]));
  assert.deepEqual(stream.becomeViewer(), []);
  const rest = pushed(stream, Buffer.concat([text.subarray(60), key(true, 98), updateRequest]));
  assert.deepEqual(rest, Buffer.concat([text.subarray(60), key(false, 97), updateRequest]));
});

test('a pointer event is a byte longer for those who asked for more than seven buttons', () => {
  const stream = new RfbClientStream({ isViewer: true, staysWriter: false });
  const wide = bytes(5, 0x81, 0, 1, 0, 2, 1);
  const all = [
    handshake,
    bytes(1),
    encodings(0, -316),
    wide,
    updateRequest,
    encodings(0),
    pointer(0x80),
    updateRequest,
  ];
  assert.deepEqual(
    pushed(stream, Buffer.concat(all), [13, 3, 9, 1, 1]),
    Buffer.concat([handshake, bytes(1), encodings(0, -316), updateRequest, encodings(0), updateRequest]),
  );
});

test('a viewer with an unknown message is told which, and nothing after it passes', () => {
  const stream = new RfbClientStream({ isViewer: true, staysWriter: false });
  const passed = pushed(stream, Buffer.concat([handshake, bytes(1), updateRequest, bytes(77, 1, 2, 3), updateRequest]));
  assert.deepEqual(passed, Buffer.concat([handshake, bytes(1), updateRequest]));
  assert.match(stream.problem ?? '', /message type 77/);
});

test('a writer may send unknown messages; only a viewer it can no longer become', () => {
  const stream = new RfbClientStream({ isViewer: false, staysWriter: false });
  const all = Buffer.concat([handshake, bytes(1), bytes(77, 1, 2, 3), key(true, 97)]);
  assert.deepEqual(pushed(stream, all, [5, 9, 1, 2]), all);
  assert.equal(stream.problem, undefined);
  assert.deepEqual(stream.becomeViewer(), []);
  assert.match(stream.problem ?? '', /message type 77/);
});

test('other ways to begin: version 3.3, a password, and those that cannot be followed', () => {
  const viewer = () => new RfbClientStream({ isViewer: true, staysWriter: false });
  const old = Buffer.concat([Buffer.from('RFB 003.003\n'), bytes(0), key(true, 97), updateRequest]);
  assert.deepEqual(pushed(viewer(), old), Buffer.concat([Buffer.from('RFB 003.003\n'), bytes(1), updateRequest]));
  const password = Buffer.concat([Buffer.from('RFB 003.008\n'), bytes(2), Buffer.alloc(16, 1), bytes(0)]);
  assert.deepEqual(
    pushed(viewer(), Buffer.concat([password, key(true, 97)]), [20]),
    Buffer.concat([password.subarray(0, -1), bytes(1)]),
  );
  const encrypted = viewer();
  pushed(encrypted, Buffer.concat([Buffer.from('RFB 003.008\n'), bytes(19)]));
  assert.match(encrypted.problem ?? '', /security type 19/);
  const http = viewer();
  pushed(http, Buffer.from('GET / HTTP/1.1\r\n'));
  assert.match(http.problem ?? '', /not version 3/);
});
