import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { underExecLabel } from '../../../src/host/exec-label.ts';

test('the label is set before the program is started, and taken back whatever comes of that', (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), 'label-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = path.join(dir, 'exec');
  const shown = () => readFileSync(file, 'utf8');
  writeFileSync(file, '');
  assert.equal(underExecLabel('a:b:c:s0', shown, file), 'a:b:c:s0');
  assert.equal(shown(), '\n');
  const fail = () => {
    throw new Error(shown());
  };
  assert.throws(() => underExecLabel('d:e:f:s0', fail, file), /^Error: d:e:f:s0$/);
  assert.equal(shown(), '\n');
});

test('a label that the kernel refuses starts nothing', () => {
  let started = 0;
  assert.throws(() => underExecLabel('a:b:c:s0', () => ++started, '/proc/self/attr/none'), /ENOENT/);
  assert.equal(started, 0);
});
