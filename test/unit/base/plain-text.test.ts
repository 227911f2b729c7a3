import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { createLogger, escapedJson, isPlainJson, plainText, plainTexts } from '../../../src/base/index.ts';
import { hostileWords } from '../../fixtures/hostile-words.ts';

const unwanted = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\u00ad\u180e\u200b\u2060-\u2064\ufeff\u{e0000}-\u{e007f}]/u;
const anyText = fc.oneof(
  fc.constantFrom(...hostileWords),
  fc.string({ unit: 'binary' }),
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
);

test('whatever a text is made of, the plain one has nothing unseen, is valid, and is plain already', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const plain = plainText(text);
      assert.doesNotMatch(plain, unwanted);
      assert.equal(plainText(plain), plain);
      assert.equal(Buffer.from(plain).toString(), plain);
    }),
  );
});

const isClean = (text: string) => !unwanted.test(text) && Buffer.from(text).toString() === text;

test('a text that has nothing unseen and is valid is plain already, but for marks that no standard names', () => {
  fc.assert(
    fc.property(anyText.filter(isClean), (text) => {
      assert.ok(plainText(text) === text || /[\u2065\u206a-\u206f\ufff9-\ufffb]/.test(text));
    }),
  );
});

test('words of languages and emoji are left alone', () => {
  for (const text of ['می‌خواهم', '👩‍💻 ❤️ 🇩🇪', 'שלום', 'क्‍ष', 'naïve', 'a b', '😀']) assert.equal(plainText(text), text);
});

test('nobody’s name becomes another’s: what is taken away leaves a mark', () => {
  assert.equal(plainText('ro\u200bot'), 'ro\ufffdot');
  assert.equal(plainText('a\u001b[2J'), 'a\ufffd[2J');
  assert.equal(plainText('a\r\nb\tc\u2028d'), 'a b c d');
});

test('JSON that is called plain has only plain texts in it, however they are written', () => {
  fc.assert(
    fc.property(fc.jsonValue(), anyText, fc.boolean(), (value, text, isEscaped) => {
      const json = JSON.stringify([value, text]);
      const written = isEscaped ? escapedJson(json) : json;
      const parsed: unknown = JSON.parse(written);
      const isPlain = isPlainJson(written);
      const same = JSON.stringify(plainTexts(structuredClone(parsed))) === JSON.stringify(parsed);
      assert.ok(!isPlain || same, written);
    }),
  );
  assert.equal(isPlainJson('{"a":"\\u003cb\\u003e\\u0026"}'), true);
  for (const json of ['"\\u001b"', '"\\n"', '"\u009b"', '"\u202e"', '"\\uD800"'])
    assert.equal(isPlainJson(json), false);
});

test('escaped JSON says the same, and a line stays a line', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const json = `${JSON.stringify({ text })}\n`;
      const escaped = escapedJson(json);
      assert.deepEqual(JSON.parse(escaped), JSON.parse(json));
      assert.doesNotMatch(escaped.slice(0, -1), unwanted);
      assert.ok(escaped.endsWith('}\n'));
    }),
  );
});

test('texts are made plain at any depth without recursion, names of members are kept', () => {
  let deep: unknown = '\u001b';
  for (let depth = 0; depth < 100_000; depth++) deep = [deep];
  let found = plainTexts(deep);
  while (Array.isArray(found)) found = found[0];
  assert.equal(found, '\ufffd');
  assert.deepEqual(plainTexts({ 'a\u001b': ['\u001b', 1, null, { b: '\u202e' }] }), {
    'a\u001b': ['\ufffd', 1, null, { b: '\ufffd' }],
  });
});

test('a megabyte is looked at in milliseconds, also when all of it is unwanted', () => {
  for (const text of [
    'x'.repeat(2 ** 20),
    '\u001b'.repeat(2 ** 20),
    '\ud800'.repeat(2 ** 20),
    '\udb40'.repeat(2 ** 20),
    '\\'.repeat(2 ** 20),
  ]) {
    const startedMs = performance.now();
    plainText(text);
    isPlainJson(text);
    escapedJson(text);
    assert.ok(performance.now() - startedMs < 3_000, JSON.stringify(text[0]));
  }
});

test('a line of the log has none of it but as an escape, and says what was said', (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), 'log-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const file = path.join(dir, 'log');
  const log = createLogger({ component: 'test', file });
  for (const word of hostileWords) log.info({ word }, 'said');
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  assert.equal(lines.length, hostileWords.length);
  for (const [at, line] of lines.entries()) {
    assert.doesNotMatch(line, unwanted);
    assert.equal(JSON.parse(line).word, hostileWords[at]);
  }
});
