import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shownNames } from '../../../src/base/index.ts';

test('of many names the first are shown, and how many there are besides', () => {
  assert.equal(shownNames([]), '');
  assert.equal(shownNames(['a', 'b'], 2), 'a, b');
  assert.equal(shownNames(['a', 'b', 'c', 'd'], 2), 'a, b and 2 more');
});
