import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { xattrReader, xattrWriter } from '../../../src/host/index.ts';

function place(t: { after(fn: () => void): void }): string {
  const dir = mkdtempSync(path.join(tmpdir(), 'xattr-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const file = path.join(dir, 'file');
  writeFileSync(file, '');
  return file;
}

test('an attribute that is written is read up to its NUL byte', async (t) => {
  const file = place(t);
  const [read, write] = [await xattrReader(), await xattrWriter()];
  try {
    write(file, 'user.label', 'system_u:object_r:container_file_t:s0:c1,c2');
  } catch {
    // Not every file system of a test machine has such attributes.
    return t.skip('no user attributes here');
  }
  assert.equal(read(file, 'user.label'), 'system_u:object_r:container_file_t:s0:c1,c2');
});

test('a missing attribute, a missing file and a value that is too long are nothing', async (t) => {
  const file = place(t);
  const read = await xattrReader();
  assert.equal(read(file, 'user.none'), undefined);
  assert.equal(read(`${file}.none`, 'user.label'), undefined);
});

test('an attribute that cannot be written is an error that says why', async (t) => {
  const file = place(t);
  const write = await xattrWriter();
  assert.throws(() => write(`${file}.none`, 'user.label', 'x'), /user.label cannot be set: ENOENT/);
  assert.throws(() => write(file, 'no-such-space.label', 'x'), /no-such-space.label cannot be set: EOPNOTSUPP|ENOTSUP/);
});
