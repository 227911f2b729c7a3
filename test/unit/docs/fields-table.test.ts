import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rows, sources, words } from './guide-tables.ts';

/** The guide's list of fields against the files that it names; `npm run test:cluster` compares it with the schemas. */

const checkedElsewhere = ['pod', 'guest', 'refused'];
const listed = rows('fields.md', 'Field');
const files = sources(['src']);

test('each field has somebody who looks at it, or a remark that says why nobody does', () => {
  assert.ok(listed.length > 200, `${listed.length} rows`);
  const without = listed.filter(([, who = '', remark = '–']) => {
    return who === '' || (words(who).includes('nobody') && (remark === '–' || words(who).length > 1));
  });
  assert.deepEqual(without, []);
});

test('each file that is named for a field has the word', () => {
  const wrong = listed.flatMap(([field = '', who = '']) => {
    const named = words(who).filter((word) => ![...checkedElsewhere, 'nobody'].includes(word));
    const word = field.match(/\w+/g)?.at(-1) ?? '';
    const text = (file: string) => files.get(`src/${file}`) ?? '';
    return named.flatMap((file) => (new RegExp(`\\b${word}\\b`).test(text(file)) ? [] : [`${field}: ${file}`]));
  });
  assert.deepEqual(wrong, []);
});
