import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  array,
  bool,
  type Codec,
  charArray,
  decodeWith,
  double,
  encodeWith,
  hyper,
  int,
  opaque,
  optional,
  string,
  struct,
  uhyper,
  uint,
} from '../../../src/libvirt/codec.ts';
import { domain, uuid } from '../../../src/libvirt/domain.ts';
import { XdrError, type XdrErrorCode } from '../../../src/libvirt/xdr.ts';

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex');

function bothWays<T>(codec: Codec<T>, value: T, bytes: string): void {
  assert.equal(encodeWith(codec, value).toString('hex'), bytes.replaceAll(' ', ''));
  assert.deepEqual(decodeWith(codec, hex(bytes)), value);
}

function refuses(codec: Codec<unknown>, bytes: string, code: XdrErrorCode): void {
  assert.throws(
    () => decodeWith(codec, hex(bytes)),
    (error) => error instanceof XdrError && error.code === code,
  );
}

function cannotEncode<T>(codec: Codec<T>, value: T): void {
  assert.throws(
    () => encodeWith(codec, value),
    (error) => error instanceof XdrError && error.code === 'XDR_OUT_OF_RANGE',
  );
}

test('numbers are big-endian words of 4 and 8 bytes', () => {
  bothWays(int, -2, 'fffffffe');
  bothWays(uint, 0xdeadbeef, 'deadbeef');
  bothWays(hyper, -2n, 'ffffffff fffffffe');
  bothWays(uhyper, 9_000_000n, '00000000 00895440');
  bothWays(double, 1.5, '3ff80000 00000000');
  bothWays(bool, true, '00000001');
});

test('numbers that do not fit their word are refused before anything is sent', () => {
  cannotEncode(int, 2 ** 31);
  cannotEncode(int, 1.5);
  cannotEncode(uint, -1);
  cannotEncode(uint, Number.NaN);
  cannotEncode(hyper, 2n ** 63n);
  cannotEncode(uhyper, -1n);
  cannotEncode(uhyper, 2n ** 64n);
});

test('text is its UTF-8 length, its bytes and zeros up to a multiple of four', () => {
  bothWays(string, 'test', '00000004 74657374');
  bothWays(string, 'é', '00000002 c3a90000');
  bothWays(string, '', '00000000');
  cannotEncode(string, 'a\0b');
  cannotEncode(string, 'x'.repeat(4_194_305));
});

test('opaque bytes have a length of their own bound', () => {
  const four = opaque(4);
  assert.deepEqual([...decodeWith(four, hex('00000003 010203ff'))], [1, 2, 3]);
  refuses(four, '00000005 0102030405000000', 'XDR_TOO_LONG');
  cannotEncode(four, Buffer.alloc(5));
});

test('an optional value is a presence word and the value', () => {
  bothWays(optional(int), undefined, '00000000');
  bothWays(optional(int), 7, '00000001 00000007');
  refuses(optional(int), '00000002 00000007', 'XDR_INVALID');
});

test('an array is a count and its elements, within the bound of the protocol', () => {
  bothWays(array(int, 2), [1, 2], '00000002 00000001 00000002');
  refuses(array(int, 2), '00000003 00000001 00000002 00000003', 'XDR_TOO_LONG');
  cannotEncode(array(int, 2), [1, 2, 3]);
});

test('a struct is its fields in order', () => {
  bothWays(struct({ b: int, a: optional(string) }), { b: 1, a: 'x' }, '00000001 00000001 00000001 78000000');
});

test('a char array takes four bytes for each char', () => {
  const four = charArray(4);
  bothWays(four, 'ab', '00000061 00000062 00000000 00000000');
  assert.equal(encodeWith(charArray(32), 'x86_64').length, 128);
  cannotEncode(four, 'abcde');
});

test('a uuid is 16 bytes without a length', () => {
  bothWays(uuid, '6695eb01-f6a4-8304-79aa-97f2502e193f', '6695eb01f6a4830479aa97f2502e193f');
  cannotEncode(uuid, 'not a uuid');
  cannotEncode(uuid, '6695eb01f6a4830479aa97f2502e193f');
});

test('the handle of a domain is read and written', () => {
  const handle = { name: 'test', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };
  bothWays(domain, handle, '00000004 74657374 6695eb01f6a4830479aa97f2502e193f 00000001');
});

test('bytes that end early or go on too long are told apart', () => {
  refuses(int, '0000', 'XDR_TRUNCATED');
  refuses(string, '00000004 7465', 'XDR_TRUNCATED');
  refuses(string, '00000003 746573', 'XDR_TRUNCATED');
  refuses(string, 'ffffffff', 'XDR_TOO_LONG');
  refuses(int, '00000001 00000002', 'XDR_TRAILING');
});

test('a writer that outgrows its first buffer keeps every byte', () => {
  const values = Array.from({ length: 5_000 }, (_, i) => i);
  const many = array(int, 5_000);
  assert.deepEqual(decodeWith(many, encodeWith(many, values)), values);
  const text = 'x'.repeat(300);
  const texts = struct({ a: string, b: uhyper, c: string });
  assert.deepEqual(decodeWith(texts, encodeWith(texts, { a: text, b: 5n, c: text })), { a: text, b: 5n, c: text });
});
