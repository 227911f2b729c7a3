import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { isProcessAlive } from '../../../src/host/index.ts';

const failing = (code: string) => () => {
  throw Object.assign(new Error(code), { code });
};

const startTime = readFileSync('/proc/self/stat', 'latin1').split(') ').at(-1)?.split(' ')[19] ?? '';

test('a process with the same start time runs, one with another has taken its pid', () => {
  assert.equal(isProcessAlive({ pid: process.pid, startTime }), true);
  assert.equal(isProcessAlive({ pid: process.pid, startTime: '1' }), false);
});

for (const code of ['ENOENT', 'ESRCH']) {
  test(`a process that the kernel does not have (${code}) has ended`, () => {
    assert.equal(isProcessAlive({ pid: process.pid, startTime }, failing(code)), false);
  });
}

for (const code of ['EMFILE', 'ENFILE', 'EACCES']) {
  test(`an agent that cannot look (${code}) has no proof that a process ended`, () => {
    assert.equal(isProcessAlive({ pid: process.pid, startTime }, failing(code)), true);
  });
}
