import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { goQuote, goUnquote } from '../../../src/base/index.ts';

describe('goQuote', () => {
  const rows: [string, string][] = [
    ['plain', '"plain"'],
    ['a "b" \\c', '"a \\"b\\" \\\\c"'],
    ['\u0007\b\f\n\r\t\v', '"\\a\\b\\f\\n\\r\\t\\v"'],
    ['\0\u001f\u007f', '"\\x00\\x1f\\x7f"'],
    ['grün 日本 😀', '"grün 日本 😀"'],
    ['\u00a0\u200b\u2028', '"\\u00a0\\u200b\\u2028"'],
    ['\u{e0001}', '"\\U000e0001"'],
    ['\ud800', '"\ufffd"'],
    ["it's", '"it\'s"'],
  ];
  for (const [input, wanted] of rows) {
    it(`quotes ${JSON.stringify(input)} as Go does, and reads it again`, () => {
      assert.equal(goQuote(input), wanted);
      assert.equal(goUnquote(wanted), input.replace('\ud800', '\ufffd'));
    });
  }
});

describe('goUnquote', () => {
  for (const text of ['', '"', 'bare', '"open', '"a" b', '"a"b"', '"a\\"']) {
    it(`does not take ${JSON.stringify(text)} for quoted text`, () => assert.equal(goUnquote(text), undefined));
  }

  it('puts U+FFFD for bytes that are no character, and for escapes that Go does not write', () => {
    assert.equal(goUnquote('"a\\xffb\\qc\\U99999999d\\x1"'), 'a\ufffdb\ufffdc\ufffdd\ufffd1');
  });
});
