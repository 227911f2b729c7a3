import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { child, parseXml, renderXml } from '../../../../src/launcher/domain/xml.ts';

const badXml = /[^\t\n\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u;

test('whatever text XML can carry comes back from an attribute and from an element', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      fc.constantFrom('', 'true', '<![CDATA[', '&amp;'),
      (a, b) => {
        const text = a + b;
        fc.pre(!badXml.test(text));
        const value = text.replace(/[\t\n]/g, ' ');
        const root = parseXml(renderXml('domain', { '@a': value, item: [{ '#text': text }, {}] }), 'domain');
        assert.equal(root.attributes.a, value);
        assert.equal(child(root, 'item')?.text, text.trim());
        assert.equal(root.children.length, 2);
      },
    ),
  );
});

test('what XML cannot carry is refused, never changed', () => {
  for (const text of ['\0', '\u001b', '\r', '\uFFFE', '\uD800', 'a\uDC00b']) {
    assert.throws(() => renderXml('domain', { item: text }), { code: 'INVALID_FIELD' });
    assert.throws(() => renderXml('domain', { '@a': text }), { code: 'INVALID_FIELD' });
  }
  assert.throws(() => renderXml('domain', { '@a': 'two\nlines' }), { code: 'INVALID_FIELD' });
});
