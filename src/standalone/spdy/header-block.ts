import { createInflate, type Inflate } from 'node:zlib';
import { headerDictionary } from './dictionary.ts';
import { SpdyError } from './errors.ts';

const maxBytes = 64 * 1024;
/** zlib's head with the checksum of the dictionary (RFC 1950, 2.2). */
const zlibHead = Buffer.from([0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2]);

/** Unpacks the header blocks of one connection: all of them are one stream of zlib. */
export class HeaderReader {
  readonly #inflate: Inflate = createInflate({ dictionary: headerDictionary });
  #pieces: Buffer[] = [];
  #size = 0;
  #failure: unknown;

  constructor() {
    this.#inflate.on('error', (error) => {
      this.#failure ??= error;
    });
    this.#inflate.on('data', (piece: Buffer) => {
      this.#size += piece.length;
      // Few bytes can be made many.
      if (this.#size > maxBytes) this.#inflate.destroy(new SpdyError('TOO_LARGE', 'too many headers'));
      else this.#pieces.push(piece);
    });
  }

  /** One at a time. Rejects with SpdyError. */
  async read(block: Buffer): Promise<ReadonlyMap<string, string>> {
    await new Promise<void>((resolve) => {
      this.#inflate.once('close', resolve);
      this.#inflate.write(block, () => {
        this.#inflate.off('close', resolve);
        resolve();
      });
    });
    if (this.#failure instanceof SpdyError) throw this.#failure;
    if (this.#failure !== undefined || this.#inflate.destroyed) {
      throw new SpdyError('MALFORMED', 'headers that cannot be unpacked', { cause: this.#failure });
    }
    const bytes = Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#size = 0;
    return parseHeaders(bytes);
  }

  close(): void {
    this.#inflate.destroy();
  }
}

/** Names in small letters. Throws SpdyError. */
export function parseHeaders(bytes: Buffer): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  let at = 0;
  const number = () => {
    if (bytes.length < at + 4) throw new SpdyError('MALFORMED', 'headers that are cut off');
    at += 4;
    return bytes.readUInt32BE(at - 4);
  };
  const text = () => {
    const length = number();
    if (bytes.length < at + length) throw new SpdyError('MALFORMED', 'headers that are cut off');
    at += length;
    return bytes.toString('utf8', at - length, at);
  };
  for (let left = number(); left > 0; left--) {
    const name = text().toLowerCase();
    headers.set(name, text());
  }
  return headers;
}

/** Packs header blocks that hold nothing, which is all that a server of port forwards says: as bytes that zlib takes as they are. */
export class EmptyHeaderWriter {
  #isBegun = false;

  block(): Buffer {
    // RFC 1951, 3.2.4: not the last block, not compressed, four bytes, their complement; then the number of headers. The empty block makes a reader give
    // what it has.
    const bytes = Buffer.from([0x00, 0x04, 0x00, 0xfb, 0xff, 0, 0, 0, 0, 0x00, 0x00, 0x00, 0xff, 0xff]);
    const block = this.#isBegun ? bytes : Buffer.concat([zlibHead, bytes]);
    this.#isBegun = true;
    return block;
  }
}
