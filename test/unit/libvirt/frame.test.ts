import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeWith } from '../../../src/libvirt/codec.ts';
import { encodePacket, PacketSplitter } from '../../../src/libvirt/frame.ts';
import { keepalivePacket } from '../../../src/libvirt/keepalive.ts';
import { Program, procedures } from '../../../src/libvirt/procedures.ts';
import { packetBytes } from './fake-daemon.ts';

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex');
const authList = '0000001c 20008086 00000001 00000042 00000000 00000001 00000000';

test('a call is 28 bytes of header and its arguments', () => {
  const packet = {
    program: Program.REMOTE,
    version: 1,
    procedure: procedures.authList.number,
    type: 0,
    serial: 1,
    status: 0,
    payload: encodeWith(procedures.authList.args, undefined),
  };
  assert.deepEqual(encodePacket(packet), hex(authList));
  assert.deepEqual([...new PacketSplitter().push(hex(authList))], [packet]);
});

test('PONG has the bytes that libvirt sends', () => {
  const pong = '0000001c 6b656570 00000001 00000002 00000002 00000000 00000000';
  assert.deepEqual(encodePacket(keepalivePacket(2)), hex(pong));
});

test('packets come out whole, however the bytes are cut', () => {
  const sizes = [0, 4, 100, 3_000, 8];
  const packets = sizes.map((size, serial) => packetBytes({ serial, payload: Buffer.alloc(size, serial) }));
  const bytes = Buffer.concat(packets);
  for (const cut of [1, 2, 3, 5, 27, 28, 29, 64, 1_000, bytes.length]) {
    const splitter = new PacketSplitter();
    const out = [];
    for (let at = 0; at < bytes.length; at += cut) out.push(...splitter.push(bytes.subarray(at, at + cut)));
    assert.deepEqual(
      out.map(({ serial, payload }) => [serial, payload.length, payload.every((byte) => byte === serial)]),
      sizes.map((size, serial) => [serial, size, true]),
      `cut into ${cut}`,
    );
    assert.equal(splitter.reservedBytes, 0);
  }
});

for (const length of [0, 27, 33_554_437, 0xffffffff]) {
  test(`a packet length of ${length} breaks the protocol, after the packets before it`, () => {
    const word = Buffer.alloc(4);
    word.writeUInt32BE(length);
    const seen: number[] = [];
    const push = () => {
      for (const { procedure } of new PacketSplitter().push(Buffer.concat([hex(authList), word]))) seen.push(procedure);
    };
    assert.throws(push, { code: 'PROTOCOL_VIOLATION' });
    assert.deepEqual(seen, [66]);
  });
}

test('the longest packet is accepted', () => {
  const longest = packetBytes({ payload: Buffer.alloc(4 + 33_554_432 - 28) });
  const splitter = new PacketSplitter();
  const half = longest.length / 2;
  assert.deepEqual([...splitter.push(longest.subarray(0, half))], []);
  assert.equal([...splitter.push(longest.subarray(half))][0]?.payload.length, 33_554_408);
});

test('a length word alone reserves next to nothing', () => {
  const splitter = new PacketSplitter();
  assert.deepEqual([...splitter.push(hex('02000000'))], []);
  assert.ok(splitter.reservedBytes <= 256, String(splitter.reservedBytes));
  assert.deepEqual([...splitter.push(Buffer.alloc(100_000))], []);
  assert.ok(splitter.reservedBytes <= 2 * 100_004, String(splitter.reservedBytes));
});
