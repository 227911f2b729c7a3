/** A long answer as buffers of about one size; what is copied in is copied once. */
export class Pieces {
  readonly #size: number;
  #piece: Buffer;
  #length = 0;
  #full: Buffer[] = [];

  constructor(sizeBytes: number) {
    this.#size = sizeBytes;
    this.#piece = Buffer.allocUnsafeSlow(sizeBytes);
  }

  text(text: string): void {
    this.#makeRoom(Buffer.byteLength(text));
    this.#length += this.#piece.write(text, this.#length);
  }

  copy(bytes: Buffer, start: number, end: number): void {
    this.#makeRoom(end - start);
    this.#length += bytes.copy(this.#piece, this.#length, start, end);
  }

  /** There is something for `taken`. */
  get hasFull(): boolean {
    return this.#full.length > 0;
  }

  /** Those that are full; they are the caller's from now on. */
  taken(): readonly Buffer[] {
    const full = this.#full;
    this.#full = [];
    return full;
  }

  /** The rest, too. */
  end(): readonly Buffer[] {
    return [...this.taken(), ...(this.#length > 0 ? [this.#piece.subarray(0, this.#length)] : [])];
  }

  #makeRoom(length: number): void {
    if (this.#length + length <= this.#piece.length) return;
    if (this.#length > 0) this.#full.push(this.#piece.subarray(0, this.#length));
    this.#piece = Buffer.allocUnsafeSlow(Math.max(this.#size, length));
    this.#length = 0;
  }
}
