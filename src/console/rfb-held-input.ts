/** More keys than anybody holds down. */
const maxKeys = 64;

/**
 * Keys and mouse buttons that a client holds down. When it may no longer send anything, nobody else would ever let go of them.
 */
export class HeldInput {
  readonly #keys = new Map<string, Buffer>();
  #pointer: Buffer | undefined;

  /** Looks at one whole message. */
  watch(message: Buffer): void {
    if (message[0] === 4) this.#key(message, message[1] !== 0, 1, 2);
    else if (message[0] === 255 && message[1] === 0) this.#key(message, message.readUInt16BE(2) !== 0, 2, 4);
    else if (message[0] === 5) this.#watchPointer(message);
  }

  /** The messages that let go of everything; after that nothing is held. */
  release(): Buffer[] {
    const messages = [...this.#keys.values(), ...(this.#pointer ? [this.#pointer] : [])];
    this.#keys.clear();
    this.#pointer = undefined;
    return messages;
  }

  #key(message: Buffer, isDown: boolean, flagBytes: 1 | 2, keyAt: number): void {
    const key = message.toString('latin1', keyAt);
    if (!isDown) this.#keys.delete(key);
    else if (this.#keys.size < maxKeys) this.#keys.set(key, cleared(message, keyAt === 2 ? 1 : 2, flagBytes));
  }

  #watchPointer(message: Buffer): void {
    const buttons = message.readUInt8(1) | (message.length > 6 ? message.readUInt8(6) << 8 : 0);
    // The event that lets go is of the short kind: a long one is told by its button bit.
    this.#pointer = buttons === 0 ? undefined : cleared(message.subarray(0, 6), 1, 1);
  }
}

function cleared(message: Buffer, at: number, bytes: number): Buffer {
  const copy = Buffer.from(message);
  copy.fill(0, at, at + bytes);
  return copy;
}
