/** What a guest wrote to its console before this broadcast was connected to it, from a log of it. */
export interface ConsolePast {
  /** Name of the log as a line: offsets of its bytes mean the same to every later broadcast. 1 to 64 letters, digits, `.`, `_`, `-`. */
  readonly line: string;
  /** Offset behind its last byte. */
  readonly end: number;
  /** The bytes before `end`, as many as are remembered. */
  readonly bytes: Buffer;
}

/**
 * The past of a console whose log was read before it was connected to and afterwards. What the guest wrote in between is in the log, and its end
 * may come through the connection, too: `Overlap` takes that away.
 */
export function joinedPast(before: ConsolePast | undefined, after: ConsolePast | undefined): JoinedPast | undefined {
  if (!after) return undefined;
  const grown = before?.line === after.line ? after.end - before.end : after.end;
  return { ...after, overlap: new Overlap(after.bytes.subarray(Math.max(0, after.bytes.length - grown))) };
}

export interface JoinedPast extends ConsolePast {
  readonly overlap: Overlap;
}

/** Bytes of which the last ones may come once more. */
export class Overlap {
  #known: Buffer;

  constructor(known: Buffer) {
    this.#known = known;
  }

  /** The first chunk that came, without the bytes that are known; later ones as they are. */
  cut(chunk: Buffer): Buffer {
    const known = this.#known;
    this.#known = Buffer.alloc(0);
    for (let length = Math.min(known.length, chunk.length); length > 0; length--) {
      if (known.subarray(known.length - length).equals(chunk.subarray(0, length))) return chunk.subarray(length);
    }
    return chunk;
  }
}
