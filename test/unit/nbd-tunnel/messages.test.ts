import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TunnelError } from '../../../src/nbd-tunnel/errors.ts';
import { FrameReader, frameOf, headerText, textOfHeader } from '../../../src/nbd-tunnel/grpc-frames.ts';
import { mapCall, readCall } from '../../../src/nbd-tunnel/messages.ts';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

/** As protoc encodes nbd.proto of KubeVirt v1.9.0. */
test('messages have the bytes of the definition, both ways', () => {
  const map = { exportName: 'data', bitmapName: 'c1', offset: 300, length: 2 ** 40 };
  const mapBytes = '0a046461746112026331' + '18ac02' + '20808080808020';
  assert.equal(hex(mapCall.request.encode(map)), mapBytes);
  assert.deepEqual(mapCall.request.decode(Buffer.from(mapBytes, 'hex')), map);
  const extents = [
    { offset: 0, length: 65_536, flags: 3, description: 'hole,zero' },
    { offset: 65_536, length: 1, flags: 0, description: 'data' },
  ];
  const answer = { extents, nextOffset: 65_537 };
  const answerBytes =
    '0a11' +
    '10808004' +
    '1803' +
    '2209686f6c652c7a65726f' +
    '0a0c' +
    '08808004' +
    '1001' +
    '220464617461' +
    '10818004';
  assert.equal(hex(mapCall.answer.encode(answer)), answerBytes);
  assert.deepEqual(mapCall.answer.decode(Buffer.from(answerBytes, 'hex')), answer);
  const read = { exportName: 'data', offset: 5, length: 0 };
  assert.equal(hex(readCall.request.encode(read)), '0a04646174611005');
  assert.deepEqual(readCall.request.decode(Buffer.from('0a04646174611005', 'hex')), read);
  const chunk = readCall.answer.decode(Buffer.from('0805' + '1203616263', 'hex'));
  assert.deepEqual([chunk.offset, Buffer.from(chunk.data).toString()], [5, 'abc']);
  assert.equal(hex(readCall.answer.encode({ offset: 5, data: Buffer.from('abc') })), '08051203616263');
});

test('fields of a later version are passed over; what is no message, and no place, is refused', () => {
  assert.deepEqual(readCall.request.decode(Buffer.from('2a0178' + '0a0161', 'hex')).exportName, 'a');
  for (const bad of ['0aff', '10ffffffffffffffffff01', '0b'])
    assert.throws(() => readCall.request.decode(Buffer.from(bad, 'hex')), TunnelError, bad);
});

test('messages come out of a body whatever pieces it comes in', () => {
  const messages = ['', 'one', 'x'.repeat(70_000)].map((text) => Buffer.from(text));
  const body = Buffer.concat(messages.map((message) => frameOf(message)));
  for (const size of [1, 7, 4096, body.length]) {
    const frames = new FrameReader();
    const found: string[] = [];
    for (let at = 0; at < body.length; at += size)
      for (const message of frames.push(body.subarray(at, at + size))) found.push(Buffer.from(message).toString());
    assert.deepEqual(found, messages.map(String));
    assert.equal(frames.isTorn, false);
  }
  const torn = new FrameReader();
  assert.deepEqual([...torn.push(body.subarray(0, 9))].length, 1);
  assert.equal(torn.isTorn, true);
});

test('a message that is compressed, or longer than anybody has memory for, is refused at its head', () => {
  assert.throws(() => [...new FrameReader().push(Buffer.from([1, 0, 0, 0, 0]))], /compressed/);
  assert.throws(() => [...new FrameReader().push(Buffer.from([0, 255, 255, 255, 255]))], /4294967295 bytes/);
});

test('words go through a header and come back', () => {
  const text = '100 % – "größer"\nals';
  assert.match(headerText(text), /^[ -~]*$/);
  assert.equal(textOfHeader(headerText(text)), text);
  assert.equal(textOfHeader('%zz'), '%zz');
  assert.equal(textOfHeader(undefined), '');
});
