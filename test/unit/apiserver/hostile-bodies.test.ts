import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseQuantity } from '../../../src/api/index.ts';
import { ApiError } from '../../../src/apiserver/errors.ts';
import { maxBodyBytes, parseBody } from '../../../src/apiserver/rest/body.ts';
import { parseGoDurationMs } from '../../../src/base/index.ts';
import { spentMs } from '../../fixtures/spent-ms.ts';

/** Far above what linear work takes on a slow machine, far below what quadratic work takes on a fast one; of processors, which others may keep. */
const generousMs = 8_000;

function inTime<T>(work: () => T): T {
  const startMs = spentMs();
  try {
    return work();
  } finally {
    const tookMs = Math.round(spentMs() - startMs);
    assert.ok(tookMs < generousMs, `took ${tookMs} ms`);
  }
}

/** The code of the refusal, or none. */
function parse(text: string, type = 'application/yaml'): string {
  return inTime(() => {
    try {
      parseBody(Buffer.from(text), type);
      return 'none';
    } catch (error) {
      assert.ok(error instanceof ApiError, String(error));
      assert.ok(error.message.length < 10_000, 'what it says is short');
      return error.code;
    }
  });
}

const lines = (count: number, of: (index: number) => string) => Array.from({ length: count }, (_, index) => of(index));
const fill = (text: string) => text.repeat(Math.floor(maxBodyBytes / text.length));

describe('a hostile YAML', () => {
  test('a map of very many keys is read or refused in no time', () => {
    assert.equal(parse(lines(20_000, (index) => `k${index}: 1`).join('\n')), 'none');
    assert.equal(parse(lines(200_000, (index) => `k${index}: 1`).join('\n')), 'TOO_LARGE');
    assert.equal(parse(`{${lines(200_000, (index) => `k${index}: 1`).join(', ')}}`), 'TOO_LARGE');
  });

  test('a long text is no many words', () => {
    const text = `a: |\n${'  some text of a script\n'.repeat(50_000)}`;
    assert.equal((parseBody(Buffer.from(text), 'application/yaml') as { a: string }).a.length, 50_000 * 22);
  });

  const hostile: Record<string, string> = {
    'an anchor for each alias': lines(60_000, (index) => `- &a${index} 1\n- *a${index}`).join('\n'),
    'a thousand laughs': `a: &a [x,x,x,x,x,x,x,x,x]\n${lines(20, (i) => `a${i}: &a${i} [${`*a${i || ''},`.repeat(9)}]`).join('\n')}`,
    commas: fill(','),
    'brackets that are not closed': fill('['),
    'empty lists': `[${fill('[],').slice(9)}]`,
    'wrong characters': fill('a: @\n'),
    'wrong brackets': fill('} '),
    'quotation marks': fill('"'),
    tags: fill('!a '),
    'anchors of one value': fill('&a '),
    'question marks': fill('? '),
    documents: fill('---\n'),
    directives: `${fill('%YAML 1.2\n')}---\na`,
    'merge keys': `a: &a {b: 1}\nc:\n${fill('  <<: *a\n')}`,
    dashes: fill('- '),
    'a key twice': 'a: 1\nb: 2\na: 3',
    'a key twice, as number and as text': '1: a\n"1": b',
    'a key twice, in a list below': 'a:\n- {b: 1, b: 2}',
    'a list as a key': '? [a]\n: b',
    'an alias': 'a: &a {b: 1}\nc: *a',
    'a list of itself': 'a: &a [*a, *a, *a, *a, *a]',
    'many comments': fill('# a\n'),
    'many empty lines': `${fill('\n').slice(9)}a: 1`,
  };
  for (const [what, text] of Object.entries(hostile)) {
    test(`${what}: refused in no time`, () => assert.match(parse(text), /^(BAD_REQUEST|TOO_LARGE)$/));
  }

  const harmless: Record<string, string> = {
    comments: `${'# a\n'.repeat(50_000)}\na: 1`,
    'empty lines': `${'\n'.repeat(100_000)}a: 1`,
    'what looks like an alias': 'a: "*b"\nc: x *y\nd: |\n  *z',
    digits: `a: ${'1'.repeat(3_000_000)}`,
    'digits of an exponent': `a: 1e${'9'.repeat(3_000_000)}`,
    'a quoted text over many lines': `a: "${'b \n  '.repeat(500_000)}"`,
    escapes: `a: "${'\\n'.repeat(1_500_000)}"`,
    'a plain text over many lines': `a: b\n${'  b\n'.repeat(700_000)}`,
    'a folded text': `a: >\n${'  b\n\n'.repeat(600_000)}`,
    'a long key': `? ${fill('a ')}`,
    'an anchor': 'a: &a {b: 1}',
  };
  for (const [what, text] of Object.entries(harmless)) {
    test(`${what}: no trouble`, () => assert.equal(parse(text), 'none'));
  }
});

describe('a hostile JSON', () => {
  const hostile: Record<string, string> = {
    brackets: fill('['),
    'deep lists': `${'['.repeat(100_000)}${']'.repeat(100_000)}`,
    'deep objects': `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`,
    quotes: fill('"'),
    'an unfinished text': `"${fill('a').slice(2)}`,
    __proto__: '{"a":{"__proto__":{"b":1}}}',
  };
  for (const [what, text] of Object.entries(hostile)) {
    test(`${what}: refused in no time`, () => assert.equal(parse(text, 'application/json'), 'BAD_REQUEST'));
  }
});

describe('a hostile protobuf', () => {
  const varint = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)]);
  const bytes = (number: number, value: Buffer) =>
    Buffer.concat([Buffer.from([...varint((number << 3) | 2), ...varint(value.length)]), value]);
  const envelope = (raw: Buffer) => {
    const kind = Buffer.concat([bytes(1, Buffer.from('v1')), bytes(2, Buffer.from('ConfigMap'))]);
    return Buffer.concat([Buffer.from([0x6b, 0x38, 0x73, 0x00]), bytes(1, kind), bytes(2, raw)]);
  };
  const type = 'application/vnd.kubernetes.protobuf';

  test('a hundred thousand entries of a map, and elements of a list, are read in no time', () => {
    const entries = lines(100_000, (index) => `k${index}`).map((key) => bytes(2, bytes(1, Buffer.from(key))));
    const map = inTime(() => parseBody(envelope(Buffer.concat(entries)), type)) as { data: object };
    assert.equal(Object.keys(map.data).length, 100_000);
    const finalizers = lines(100_000, (index) => `f${index}`).map((name) => bytes(14, Buffer.from(name)));
    const list = inTime(() => parseBody(envelope(bytes(1, Buffer.concat(finalizers))), type));
    assert.equal((list as { metadata: { finalizers: string[] } }).metadata.finalizers.length, 100_000);
  });
});

describe('a hostile quantity', () => {
  for (const text of [
    '1'.repeat(2_000_000),
    `${'1'.repeat(2_000_000)}x`,
    `1.${'0'.repeat(1_000_000)}Gi`,
    '1e999',
    '-1e999',
  ]) {
    test(`${text.slice(0, 8)} of ${text.length} characters is none, and that is known in no time`, () => {
      assert.equal(
        inTime(() => parseQuantity(text)),
        undefined,
      );
    });
  }

  test('as many digits as somebody may write are one', () => {
    assert.equal(parseQuantity('1.'.padEnd(100, '0')), 1);
    assert.equal(parseQuantity('1.'), 1);
    assert.equal(parseQuantity('.5Gi'), 2 ** 29);
  });
});

test('a duration that can be read in many ways is refused in no time', () => {
  assert.equal(
    inTime(() => parseGoDurationMs(`00${'s000'.repeat(29)}n`)),
    undefined,
  );
  assert.equal(parseGoDurationMs('1.5h30m.5s'), 1.5 * 3_600_000 + 30 * 60_000 + 500);
});
