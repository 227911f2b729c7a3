import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { replaceFile } from '../../../src/host/index.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'replace-file-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

test('a file is made with its mode, whatever was there before', async () => {
  const file = path.join(directory, 'state.json');
  writeFileSync(file, 'a much longer text than the new one', { mode: 0o644 });
  await replaceFile(file, 'new', 0o600);
  assert.equal(readFileSync(file, 'utf8'), 'new');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(directory), ['state.json']);
});

test('writers side by side leave the whole content of one of them and no draft', async () => {
  const file = path.join(directory, 'state.json');
  const contents = Array.from({ length: 20 }, (_, n) => String(n % 10).repeat(10_000 + n));
  await Promise.all(contents.map((content) => replaceFile(file, content, 0o600)));
  assert.ok(contents.includes(readFileSync(file, 'utf8')));
  assert.deepEqual(readdirSync(directory), ['state.json']);
});

test('a file that cannot be replaced stays, and the draft is gone', async () => {
  const place = path.join(directory, 'place');
  mkdirSync(path.join(place, 'in-the-way'), { recursive: true });
  await assert.rejects(replaceFile(place, 'new', 0o600), { code: 'EISDIR' });
  assert.deepEqual(readdirSync(directory), ['place']);
  await assert.rejects(replaceFile(path.join(directory, 'missing/file'), 'new', 0o600), { code: 'ENOENT' });
});
