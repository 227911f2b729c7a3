import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { draftFile, replaceFile, replaceFileSync, syncTree } from '../../../src/host/index.ts';

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
  const opened = path.join(directory, 'place');
  mkdirSync(path.join(opened, 'in-the-way'), { recursive: true });
  await assert.rejects(replaceFile(opened, 'new', 0o600), { code: 'EISDIR' });
  assert.deepEqual(readdirSync(directory), ['place']);
  await assert.rejects(replaceFile(path.join(directory, 'missing/file'), 'new', 0o600), { code: 'ENOENT' });
});

test('a draft replaces the file when it is kept, and not before; discarded it leaves nothing', async () => {
  const file = path.join(directory, 'state.json');
  writeFileSync(file, 'old');
  const draft = await draftFile(file, 'new', 0o600);
  assert.equal(readFileSync(file, 'utf8'), 'old');
  await draft.keep();
  assert.equal(readFileSync(file, 'utf8'), 'new');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  await (await draftFile(file, 'newer', 0o600)).discard();
  assert.equal(readFileSync(file, 'utf8'), 'new');
  assert.deepEqual(readdirSync(directory), ['state.json']);
});

test('at once, without waiting for a disk, it is the same: whole, with its mode, and no draft stays', () => {
  const file = path.join(directory, 'state.json');
  writeFileSync(file, 'a much longer text than the new one', { mode: 0o644 });
  replaceFileSync(file, 'new', 0o600);
  assert.equal(readFileSync(file, 'utf8'), 'new');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  mkdirSync(path.join(directory, 'place/in-the-way'), { recursive: true });
  assert.throws(() => replaceFileSync(path.join(directory, 'place'), 'new', 0o600), { code: 'EISDIR' });
  assert.deepEqual(readdirSync(directory).sort(), ['place', 'state.json']);
});

test('a tree is synced with its links and empty directories; one that is not there is an error', async () => {
  mkdirSync(path.join(directory, 'tree/empty'), { recursive: true });
  writeFileSync(path.join(directory, 'tree/file'), 'text');
  symlinkSync('nowhere', path.join(directory, 'tree/link'));
  await syncTree(path.join(directory, 'tree'));
  await assert.rejects(syncTree(path.join(directory, 'missing')), { code: 'ENOENT' });
});
