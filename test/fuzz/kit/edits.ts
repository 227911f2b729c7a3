import fc from 'fast-check';
import { hostileWords } from '../../fixtures/hostile-words.ts';

/** Numbers that fit no type, or just not. */
export const extremeNumbers: readonly string[] = [
  ...['0', '-0', '-1', '1', '127', '128', '255', '256', '65535', '65536', '2147483647', '2147483648', '-2147483649'],
  ...['4294967295', '4294967296', '9007199254740993', '18446744073709551616', '99999999999999999999999', '1e309'],
  ...['1e-400', '.5', '0x10', '007', '1_000', 'NaN', 'Infinity', '-', '+1', '1.', '٣'],
];

/** Words with a meaning of their own to programs of this language, or to formats. */
export const tellingWords: readonly string[] = [
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length', 'then', 'undefined', 'null', 'true'],
  ...[
    '{',
    '}',
    '[',
    ']',
    '"',
    "'",
    '<',
    '>',
    '&',
    ';',
    ':',
    ',',
    '=',
    '/',
    '..',
    '../../etc/passwd',
    '%00',
    '%',
    '\n',
    '\r\n',
  ],
  ...[
    '<!DOCTYPE a [<!ENTITY b "c">]>',
    '&b;',
    '<![CDATA[',
    ']]>',
    '<!--',
    '-->',
    '*a',
    '&a',
    '- ',
    '? ',
    '| ',
    '{{',
    '$',
    '`',
  ],
];

/** A word that nobody expects; the long one seldom, as it makes everything slow. */
export function hostileText(words: readonly string[] = []): fc.Arbitrary<string> {
  const short = [...hostileWords.filter((word) => word.length < 200), ...tellingWords, ...words];
  return fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom(...short) },
    { weight: 10, arbitrary: fc.constantFrom(...extremeNumbers) },
    { weight: 10, arbitrary: fc.string({ maxLength: 12, unit: 'binary' }) },
    { weight: 1, arbitrary: fc.constantFrom(...hostileWords) },
  );
}

/** A place in something of unknown length, as a part of it. */
const place = fc.nat({ max: 9_999 });
const at = (part: number, length: number) => Math.floor((part * (length + 1)) / 10_000);
const few = fc.integer({ min: 1, max: 24 });

type Edit<T> = (value: T) => T;

function textEdit(words: readonly string[]): fc.Arbitrary<Edit<string>> {
  const word = hostileText(words);
  return fc.oneof(
    fc.tuple(place, few).map(
      ([part, length]): Edit<string> =>
        (text) => {
          const from = at(part, text.length);
          return text.slice(0, from) + text.slice(from + length);
        },
    ),
    fc.tuple(place, word).map(
      ([part, added]): Edit<string> =>
        (text) => {
          const from = at(part, text.length);
          return text.slice(0, from) + added + text.slice(from);
        },
    ),
    fc.tuple(place, few, few).map(
      ([part, length, times]): Edit<string> =>
        (text) => {
          const from = at(part, text.length);
          return text.slice(0, from) + text.slice(from, from + length).repeat(times) + text.slice(from + length);
        },
    ),
    fc.tuple(place, fc.constantFrom(...extremeNumbers)).map(
      ([part, number]): Edit<string> =>
        (text) => {
          const numbers = [...text.matchAll(/\d+/g)];
          const found = numbers[at(part, numbers.length - 1)];
          return found ? text.slice(0, found.index) + number + text.slice(found.index + found[0].length) : text;
        },
    ),
    fc.tuple(place, word).map(
      ([part, replacement]): Edit<string> =>
        (text) => {
          const names = [...text.matchAll(/[A-Za-z]+/g)];
          const found = names[at(part, names.length - 1)];
          return found ? text.slice(0, found.index) + replacement + text.slice(found.index + found[0].length) : text;
        },
    ),
    place.map(
      (part): Edit<string> =>
        (text) =>
          text.slice(0, at(part, text.length)),
    ),
  );
}

function apply<T>(value: T, edits: readonly Edit<T>[]): T {
  return edits.reduce((changed, edit) => edit(changed), value);
}

/** The samples, with up to four changes: cut, repeated, mixed with `words` and hostile ones, numbers replaced by extremes. */
export function changedText(samples: readonly string[], words: readonly string[] = []): fc.Arbitrary<string> {
  const edits = fc.array(textEdit(words), { maxLength: 4, size: 'max' });
  return fc.tuple(fc.constantFrom(...samples), edits).map(([sample, all]) => apply(sample, all));
}

const extremeWords = [
  0, 1, 3, 4, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0xffff, 0x10000, 0x2000000, 0x7fffffff, 0x80000000, 0xffffffff,
];

const bytesEdit: fc.Arbitrary<Edit<Buffer>> = fc.oneof(
  fc.tuple(place, fc.integer({ min: 0, max: 255 })).map(
    ([part, byte]): Edit<Buffer> =>
      (bytes) => {
        const changed = Buffer.from(bytes);
        if (changed.length > 0) changed[at(part, changed.length - 1)] = byte;
        return changed;
      },
  ),
  fc.tuple(place, fc.integer({ min: 0, max: 7 })).map(
    ([part, bit]): Edit<Buffer> =>
      (bytes) => {
        const changed = Buffer.from(bytes);
        const where = at(part, changed.length - 1);
        if (changed.length > 0) changed[where] = (changed[where] ?? 0) ^ (1 << bit);
        return changed;
      },
  ),
  fc.tuple(place, fc.constantFrom(...extremeWords)).map(
    ([part, word]): Edit<Buffer> =>
      (bytes) => {
        const changed = Buffer.from(bytes);
        const where = at(part, Math.floor((changed.length - 4) / 4)) * 4;
        if (changed.length >= 4) changed.writeUInt32BE(word, where);
        return changed;
      },
  ),
  fc.tuple(place, few).map(
    ([part, length]): Edit<Buffer> =>
      (bytes) => {
        const from = at(part, bytes.length);
        return Buffer.concat([bytes.subarray(0, from), bytes.subarray(from + length)]);
      },
  ),
  fc.tuple(place, few, few).map(
    ([part, length, times]): Edit<Buffer> =>
      (bytes) => {
        const from = at(part, bytes.length);
        const repeated = Array.from({ length: times }, () => bytes.subarray(from, from + length));
        return Buffer.concat([bytes.subarray(0, from), ...repeated, bytes.subarray(from + length)]);
      },
  ),
  fc.tuple(place, fc.uint8Array({ maxLength: 24 })).map(
    ([part, added]): Edit<Buffer> =>
      (bytes) => {
        const from = at(part, bytes.length);
        return Buffer.concat([bytes.subarray(0, from), added, bytes.subarray(from)]);
      },
  ),
  place.map(
    (part): Edit<Buffer> =>
      (bytes) =>
        bytes.subarray(0, at(part, bytes.length)),
  ),
);

/** Up to four changes: bytes and bits, words that lie about lengths, cuts, repetitions, the end missing. */
export const bytesChange: fc.Arbitrary<(bytes: Uint8Array) => Buffer> = fc
  .array(bytesEdit, { maxLength: 4, size: 'max' })
  .map((edits) => (bytes) => apply(Buffer.from(bytes), edits));

/** The samples, changed like that. */
export function changedBytes(samples: readonly Uint8Array[]): fc.Arbitrary<Buffer> {
  return fc.tuple(fc.constantFrom(...samples), bytesChange).map(([sample, change]) => change(sample));
}

/** One piece or many: where the borders fall must make no difference. */
export function inPieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [...new Set(cuts.map((part) => at(part, bytes.length)))].sort((a, b) => a - b);
  return [...places, bytes.length].map((end, index) => bytes.subarray(places[index - 1] ?? 0, end));
}

/** Where to cut, for `inPieces`. */
export const cuts: fc.Arbitrary<number[]> = fc.array(place, { maxLength: 12, size: 'max' });

/** So many bytes of `fragment`, between a beginning and an end. */
export function repeated(fragment: string, before = '', after = ''): (bytes: number) => string {
  return (bytes) => before + fragment.repeat(Math.ceil(bytes / Buffer.byteLength(fragment))) + after;
}

/** Values of an input that has several. */
export function together<T extends readonly unknown[]>(...values: T): T {
  return values;
}
