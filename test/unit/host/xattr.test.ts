import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import koffi from 'koffi';
import { xattrReader } from '../../../src/host/index.ts';

const setxattr = koffi
  .load(null)
  .func('int setxattr(const char *path, const char *name, const uint8_t *value, size_t size, int flags)') as (
  file: string,
  name: string,
  value: Buffer,
  size: number,
  flags: number,
) => number;

function place(t: { after(fn: () => void): void }): string {
  const dir = mkdtempSync(path.join(tmpdir(), 'xattr-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const file = path.join(dir, 'file');
  writeFileSync(file, '');
  return file;
}

test('an attribute is read up to its NUL byte', async (t) => {
  const file = place(t);
  const value = Buffer.from('system_u:object_r:container_file_t:s0:c1,c2\0');
  // Not every file system of a test machine has such attributes.
  if (setxattr(file, 'user.label', value, value.length, 0) !== 0) return t.skip('no user attributes here');
  const read = await xattrReader();
  assert.equal(read(file, 'user.label'), 'system_u:object_r:container_file_t:s0:c1,c2');
});

test('a missing attribute, a missing file and a value that is too long are nothing', async (t) => {
  const file = place(t);
  const read = await xattrReader();
  assert.equal(read(file, 'user.none'), undefined);
  assert.equal(read(`${file}.none`, 'user.label'), undefined);
});
