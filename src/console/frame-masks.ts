/**
 * Masks of websocket frames (RFC 6455, 5.3), four bytes at a time. `ws` itself takes byte after byte, which was a third of the work for what
 * a client sends; it looks for a package `bufferutil` to do better, and in bundles this file is that package (`scripts/bundle.mjs`).
 */

/** Below, a view of words costs more than it saves. */
const leastBytes = 256;

/** In place. `key`: four bytes. */
export function unmask(bytes: Uint8Array, key: Uint8Array): void {
  if (bytes.length < leastBytes) byByte(bytes, key, 0, bytes.length);
  else byWord(bytes, key);
}

/** `length` bytes of `source`, masked, in `output` from `offset` on; the two may be the same. */
export function mask(source: Uint8Array, key: Uint8Array, output: Uint8Array, offset: number, length: number): void {
  output.set(source.subarray(0, length), offset);
  unmask(output.subarray(offset, offset + length), key);
}

function byWord(bytes: Uint8Array, key: Uint8Array): void {
  const { byteOffset, length } = bytes;
  const first = (4 - (byteOffset & 3)) & 3;
  const count = (length - first) >> 2;
  const words = new Uint32Array(bytes.buffer, byteOffset + first, count);
  const word = wordOf(key, first);
  for (let index = 0; index < count; index++) words[index] = (words[index] ?? 0) ^ word;
  byByte(bytes, key, 0, first);
  byByte(bytes, key, first + 4 * count, length);
}

function byByte(bytes: Uint8Array, key: Uint8Array, from: number, to: number): void {
  for (let index = from; index < to; index++) bytes[index] = (bytes[index] ?? 0) ^ (key[index & 3] ?? 0);
}

/** The key as it lies in memory when its `first` byte comes first. */
function wordOf(key: Uint8Array, first: number): number {
  const turned = Uint8Array.from([0, 1, 2, 3], (step) => key[(first + step) & 3] ?? 0);
  return new Uint32Array(turned.buffer)[0] ?? 0;
}
