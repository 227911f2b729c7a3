const firstBytes = 4096;

/**
 * The last bytes of a broadcast, found by their offset since the beginning of its line; `from` is that of its first byte. Its memory grows with what
 * it holds, up to its limit.
 */
export class Scrollback {
  readonly #limitBytes: number;
  readonly #from: number;
  #ring: Buffer = Buffer.alloc(0);
  /** Appended so far. */
  #length = 0;

  constructor(limitBytes: number, from = 0) {
    this.#limitBytes = limitBytes;
    this.#from = from;
  }

  /** Offset of the oldest byte that is still known. */
  get start(): number {
    return this.#from + Math.max(0, this.#length - this.#limitBytes);
  }

  /** Offset of the byte that comes next. */
  get end(): number {
    return this.#from + this.#length;
  }

  append(chunk: Buffer): void {
    if (chunk.length === 0) return;
    const kept = chunk.length > this.#limitBytes ? chunk.subarray(chunk.length - this.#limitBytes) : chunk;
    this.#length += chunk.length;
    this.#growFor(this.#length, this.#length - kept.length);
    const at = (this.#length - kept.length) % this.#ring.length;
    const copied = kept.copy(this.#ring, at);
    if (copied < kept.length) kept.copy(this.#ring, 0, copied);
  }

  /** A copy of the bytes from `from`, at most `maxBytes`. `from` is between `start` and `end`. */
  read(from: number, maxBytes: number): Buffer {
    const length = Math.min(this.end - from, maxBytes);
    const piece = Buffer.allocUnsafe(Math.max(0, length));
    if (piece.length === 0) return piece;
    const at = (from - this.#from) % this.#ring.length;
    const copied = this.#ring.copy(piece, 0, at, at + piece.length);
    if (copied < piece.length) this.#ring.copy(piece, copied, 0, piece.length - copied);
    return piece;
  }

  /** While nothing was overwritten, places are indexes of the ring, and a larger ring starts the same way. */
  #growFor(end: number, written: number): void {
    if (this.#ring.length === this.#limitBytes || end <= this.#ring.length) return;
    let bytes = Math.max(firstBytes, this.#ring.length);
    while (bytes < end && bytes < this.#limitBytes) bytes *= 2;
    const ring = Buffer.alloc(Math.min(bytes, this.#limitBytes));
    this.#ring.copy(ring, 0, 0, Math.min(written, this.#ring.length));
    this.#ring = ring;
  }
}
