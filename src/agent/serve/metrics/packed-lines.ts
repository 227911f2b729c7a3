import { sampledFamilies } from './vm-families.ts';
import type { Lines } from './vm-lines.ts';

/** Lines of one VM and one source as bytes, made when the figures come: a scrape copies them, and makes no text. */
export interface PackedLines {
  readonly bytes: Buffer;
  /** By the family's index in `sampledFamilies`: where its lines end. They begin where those of the one before end. */
  readonly ends: Uint32Array;
}

/** Of one VM and one source: the largest machines there are have a tenth of it. */
export const packedLimit = 1024 * 1024;

/** Throws when there are more than `packedLimit` bytes. */
export function packLines(lines: Lines): PackedLines {
  const texts = sampledFamilies.map(({ name }) => lines.get(name) ?? '');
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length > packedLimit) throw new RangeError(`series of ${length} characters are too many`);
  const bytes = Buffer.from(texts.join(''));
  const isAscii = bytes.length === length;
  const ends = new Uint32Array(texts.length);
  let end = 0;
  for (const [index, text] of texts.entries()) {
    end += isAscii ? text.length : Buffer.byteLength(text);
    ends[index] = end;
  }
  return { bytes, ends };
}

/** From and to of one family's lines in `bytes`. */
export function rangeOf({ ends }: PackedLines, family: number): readonly [start: number, end: number] {
  return [family === 0 ? 0 : (ends[family - 1] ?? 0), ends[family] ?? 0];
}
