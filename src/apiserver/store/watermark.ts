import { type FileHandle, open } from 'node:fs/promises';
import { errorCode, jsonRecord } from '../../base/index.ts';
import { openPlainFile, replaceFile } from '../../host/index.ts';

import { seal, unseal } from './seal.ts';

/** How far the database had come, kept apart from the database. */
export interface Mark {
  /** Of the last change that was acknowledged. */
  readonly revision: number;
  /** Objects there were then. */
  readonly count: number;
  /** No revision above this one was ever handed out. */
  readonly reserved: number;
}

export type FoundMark =
  | { readonly kind: 'found'; readonly mark: Mark; readonly sequence: number }
  /** No file: a new database, or one of a version that had none. */
  | { readonly kind: 'none' }
  | { readonly kind: 'damaged' };

/** Revisions reserved at once: one sync for so many changes. */
export const reservedAtOnce = 1_000;
/** Two slots, each in a page of its own, written in turn: one of them is whole whatever happens. */
const slotBytes = 4096;
const slots = 2;

/** Rejects with PlainFileError, or with the system's error. */
export async function readMark(file: string): Promise<FoundMark> {
  const bytes = await readSlots(file);
  if (!bytes) return { kind: 'none' };
  const found = Array.from({ length: slots }, (_, slot) => parseSlot(bytes.subarray(slot * slotBytes)));
  const newest = found.reduce(
    (best, next) => (next && next.sequence >= (best?.sequence ?? 0) ? next : best),
    undefined,
  );
  return newest ?? { kind: 'damaged' };
}

async function readSlots(file: string): Promise<Buffer | undefined> {
  const handle = await openPlainFile(file).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (!handle) return undefined;
  try {
    const { buffer } = await handle.read(Buffer.alloc(slots * slotBytes), 0, slots * slotBytes, 0);
    return buffer;
  } finally {
    await handle.close();
  }
}

/**
 * A small file beside the database. `reserve` is on disk before a revision is handed out: so none is handed out twice, whatever
 * becomes of the database. `note` follows each acknowledged batch into the page cache without waiting for the disk: it outlives
 * any program that ends, and reveals a database that came back with less.
 */
export class Watermark {
  readonly #handle: FileHandle;
  #mark: Mark;
  #sequence: number;

  private constructor(handle: FileHandle, mark: Mark, sequence: number) {
    this.#handle = handle;
    this.#mark = mark;
    this.#sequence = sequence;
  }

  /** Goes on after `found` with `mark`, which is on disk when this resolves. Rejects with the system's error. */
  static async begin(file: string, found: FoundMark, mark: Mark): Promise<Watermark> {
    if (found.kind !== 'found') await replaceFile(file, formatSlot(mark, 0).padEnd(slots * slotBytes, '\n'), 0o600);
    const watermark = new Watermark(await open(file, 'r+'), mark, found.kind === 'found' ? found.sequence : 0);
    try {
      await watermark.#write(mark, 'synced');
      return watermark;
    } catch (error) {
      await watermark.#handle.close();
      throw error;
    }
  }

  get reserved(): number {
    return this.#mark.reserved;
  }

  /** Revisions up to this one may be handed out once it resolves. */
  async reserve(reserved: number): Promise<void> {
    await this.#write({ ...this.#mark, reserved }, 'synced');
  }

  async note(revision: number, count: number): Promise<void> {
    await this.#write({ ...this.#mark, revision, count }, 'written');
  }

  /** `last`: no revision above it was handed out. The next start goes on right there. */
  async close(last: number): Promise<void> {
    try {
      await this.#write({ ...this.#mark, reserved: last }, 'synced');
    } finally {
      await this.#handle.close();
    }
  }

  async #write(mark: Mark, how: 'written' | 'synced'): Promise<void> {
    const sequence = this.#sequence + 1;
    await this.#handle.write(formatSlot(mark, sequence), (sequence % slots) * slotBytes);
    if (how === 'synced') await this.#handle.datasync();
    this.#sequence = sequence;
    this.#mark = mark;
  }
}

/** A line of its own: a longer one before it must not shine through. */
function formatSlot(mark: Mark, sequence: number): string {
  return `${seal('watermark', JSON.stringify({ ...mark, sequence }))}\n`;
}

function parseSlot(bytes: Buffer): Extract<FoundMark, { kind: 'found' }> | undefined {
  const json = unseal('watermark', bytes.toString('utf8', 0, Math.max(bytes.indexOf('\n'), 0)));
  if (json === undefined) return undefined;
  const { revision, count, reserved, sequence } = jsonRecord(json) ?? {};
  if (![revision, count, reserved, sequence].every((number) => Number.isSafeInteger(number))) return undefined;
  const mark = { revision, count, reserved } as Mark;
  return { kind: 'found', mark, sequence: sequence as number };
}
