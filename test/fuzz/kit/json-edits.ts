import fc from 'fast-check';
import { changedText, hostileText } from './edits.ts';

type Holder = Record<string, unknown>;

/** A place in a value: the object or list that holds it, and its name there. */
interface Spot {
  readonly holder: Holder;
  readonly name: string;
}

const mostSpots = 2_000;

function spotsOf(root: Holder): Spot[] {
  const spots: Spot[] = [];
  const waiting: Holder[] = [root];
  for (let holder = waiting.pop(); holder && spots.length < mostSpots; holder = waiting.pop()) {
    for (const name of Object.keys(holder)) {
      spots.push({ holder, name });
      const value = holder[name];
      if (typeof value === 'object' && value !== null) waiting.push(value as Holder);
    }
  }
  return spots;
}

const mostNodes = 20_000;

/** Counted as JSON has them: what stands in two places counts twice. */
function isTooLarge(root: unknown): boolean {
  const waiting = [root];
  for (let nodes = 0; waiting.length > 0; nodes++) {
    if (nodes + waiting.length > mostNodes) return true;
    const value = waiting.pop();
    if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) waiting.push(member);
  }
  return false;
}

type Change = (spot: Spot, other: Spot) => void;

/** Own members, whatever they are called. */
function set(holder: Holder, name: string, value: unknown): void {
  // JSON has no lists with holes or other members.
  if (Array.isArray(holder) && (name === 'length' || !Object.hasOwn(holder, name))) return;
  Object.defineProperty(holder, name, { value, enumerable: true, writable: true, configurable: true });
}

function nested(depth: number, isList: boolean): unknown {
  let value: unknown = isList ? [] : {};
  for (let level = 1; level < depth; level++) value = isList ? [value] : { a: value };
  return value;
}

export interface JsonEdits {
  /** Depths of what is put in place of a value. */
  readonly depths?: readonly number[];
  /** Names and texts with a meaning to this parser. */
  readonly words?: readonly string[];
}

function hostileValue({ depths = [3, 40, 300], words = [] }: JsonEdits): fc.Arbitrary<unknown> {
  return fc.oneof(
    fc.constantFrom<unknown>(null, true, false, 0, -1, 1.5, -0, 2 ** 31, 2 ** 32, 2 ** 53, 1e308, -1e308, '', ' '),
    hostileText(words),
    fc
      .constantFrom('[]', '{}', '[null]', '[[]]', '[{}]', '{"__proto__":{"a":1}}', '{"length":-1}', '{"then":1}')
      .map(parsed),
    fc.tuple(fc.constantFrom(...depths), fc.boolean()).map(([depth, isList]) => nested(depth, isList)),
    fc.integer({ min: 1, max: 300 }).map((length) => Array.from({ length }, (_, index) => ({ name: `n${index % 7}` }))),
    fc.jsonValue({ maxDepth: 3 }),
  );
}

const parsed = (text: string): unknown => JSON.parse(text);

function change(edits: JsonEdits): fc.Arbitrary<Change> {
  return fc.oneof(
    {
      weight: 6,
      arbitrary: hostileValue(edits).map(
        (value): Change =>
          ({ holder, name }) =>
            set(holder, name, value),
      ),
    },
    { weight: 2, arbitrary: fc.constant<Change>(leaveOut) },
    {
      weight: 2,
      arbitrary: hostileText(edits.words).map(
        (called): Change =>
          ({ holder, name }) =>
            set(holder, called, holder[name]),
      ),
    },
    { weight: 2, arbitrary: fc.constant<Change>((spot, other) => set(spot.holder, spot.name, copyOf(other))) },
    {
      weight: 1,
      arbitrary: fc.constant<Change>(({ holder, name }) => {
        const value = holder[name];
        set(holder, name, Array.isArray(value) ? value[0] : [value, value]);
      }),
    },
    {
      weight: 1,
      arbitrary: fc.constant<Change>(({ holder, name }) => set(holder, name, textOf(holder[name]))),
    },
  );
}

/** A list closes up: JSON has no holes. */
function leaveOut({ holder, name }: Spot): void {
  if (Array.isArray(holder)) holder.splice(Number(name), 1);
  else delete holder[name];
}

const copyOf = ({ holder, name }: Spot): unknown => JSON.parse(textOf(holder[name] ?? null));

/**
 * The samples as values, with up to four members replaced by what nobody expects there, left out, called otherwise, exchanged.
 * Each value is a new one; `__proto__` is an own member, as in what was JSON.
 */
export function changedValue(samples: readonly unknown[], edits: JsonEdits = {}): fc.Arbitrary<unknown> {
  const texts = samples.map((sample) => JSON.stringify({ root: sample }));
  const steps = fc.array(fc.tuple(change(edits), fc.nat(), fc.nat()), { maxLength: 4, size: 'max' });
  return fc.tuple(fc.constantFrom(...texts), steps).map(([text, all]) => {
    const holder = JSON.parse(text) as Holder;
    for (const [apply, one, other] of all) {
      const spots = spotsOf(holder);
      const [spot, second] = [spots[one % spots.length], spots[other % spots.length]];
      if (spot && second) apply(spot, second);
      // Members that are called twice, and copies of them, multiply: as JSON it would be no input of some hundred KB.
      if (isTooLarge(holder)) return (JSON.parse(text) as Holder).root;
    }
    return holder.root;
  });
}

/** The same as text; some of it changed as text, too, so that it is JSON no more, or has a member twice. */
export function changedJson(samples: readonly unknown[], edits: JsonEdits = {}): fc.Arbitrary<string> {
  const asText = samples.map((sample) => JSON.stringify(sample));
  return fc.oneof(
    { weight: 3, arbitrary: changedValue(samples, edits).map(textOf) },
    {
      weight: 1,
      arbitrary: changedText(asText, [',"metadata":{}', '"a":1,"a":2,', '\\ud800', '\\u0000', ...(edits.words ?? [])]),
    },
  );
}

/** What is nested too deeply for this runtime to write is nobody's text. */
function textOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null';
  } catch {
    return '[]';
  }
}
