import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { openTrusted, type SafePath, xattrReader, xattrWriter } from '../../../src/host/index.ts';

function opened(t: { after(fn: () => void): void }): SafePath {
  const dir = mkdtempSync(path.join(tmpdir(), 'xattr-'));
  const file = path.join(dir, 'file');
  writeFileSync(file, '');
  const opened = openTrusted(file);
  t.after(() => {
    opened.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return opened;
}

test('an attribute that is written is read up to its NUL byte', async (t) => {
  const file = opened(t);
  const [read, write] = [await xattrReader(), await xattrWriter()];
  try {
    write(file, 'user.label', 'system_u:object_r:container_file_t:s0:c1,c2');
  } catch {
    // Not every file system of a test machine has such attributes.
    return t.skip('no user attributes here');
  }
  assert.equal(read(file, 'user.label'), 'system_u:object_r:container_file_t:s0:c1,c2');
});

test('a missing attribute is nothing, and a place that was closed is nobody’s', async (t) => {
  const file = opened(t);
  const read = await xattrReader();
  assert.equal(read(file, 'user.none'), undefined);
  file.close();
  assert.throws(() => read(file, 'user.none'), /was closed/);
});

test('an attribute that cannot be written is an error that says why', async (t) => {
  const file = opened(t);
  const write = await xattrWriter();
  assert.throws(() => write(file, 'no-such-space.label', 'x'), /no-such-space.label cannot be set: EOPNOTSUPP|ENOTSUP/);
});
