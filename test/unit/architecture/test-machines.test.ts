import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { isAlone, longestFirst, namedFiles } from '../../../scripts/test-machines.mjs';

test('files that are begun first, or run alone, are there', () => {
  assert.deepEqual(
    namedFiles.filter((file) => !existsSync(file)),
    [],
  );
});

test('long files are begun first, and none is lost', () => {
  const long = namedFiles.filter((file) => !isAlone(file));
  assert.deepEqual(longestFirst(['a.test.ts', long[1] ?? '', long[0] ?? '', 'b.test.ts']), [
    long[0],
    long[1],
    'a.test.ts',
    'b.test.ts',
  ]);
});
