import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { errorCode } from '../../../src/base/index.ts';
import { openPlainFile, readPlainFile, readPlainFileSync } from '../../../src/host/index.ts';

let dir: string;
let server: Server;

before(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'plain-'));
  writeFileSync(at('file'), 'content');
  writeFileSync(at('empty'), '');
  writeFileSync(at('large'), 'äb'.repeat(100_000));
  mkdirSync(at('directory'));
  symlinkSync(at('file'), at('link'));
  spawnSync('mkfifo', [at('pipe')]);
  server = createServer();
  await new Promise<void>((resolve) => server.listen(at('socket'), resolve));
});
after(() => {
  server.close();
  rmSync(dir, { recursive: true });
});

function at(name: string): string {
  return path.join(dir, name);
}

/** The code of what came of it; the text where nothing did. */
async function both(file: string, maxBytes = 1_000_000): Promise<string[]> {
  const code = (error: unknown) => String(errorCode(error));
  const read = await readPlainFile(file, maxBytes).catch(code);
  const readSync = (() => {
    try {
      return readPlainFileSync(file, maxBytes);
    } catch (error) {
      return code(error);
    }
  })();
  return [read, readSync];
}

test('a plain file is read whole, however long it is, and no longer than allowed', async () => {
  assert.deepEqual(await both(at('file')), ['content', 'content']);
  assert.deepEqual(await both(at('empty')), ['', '']);
  const [read, readSync] = await both(at('large'));
  assert.ok(read === 'äb'.repeat(100_000) && readSync === read);
  assert.deepEqual(await both(at('file'), 7), ['content', 'content']);
  assert.deepEqual(await both(at('file'), 6), ['TOO_LARGE', 'TOO_LARGE']);
  assert.deepEqual(await both(at('large'), 299_999), ['TOO_LARGE', 'TOO_LARGE']);
});

test('a file of the kernel, which tells no size, is read', async () => {
  for (const text of await both('/proc/meminfo')) assert.match(text, /^MemTotal:.*\n/);
});

test('a pipe, a socket, a device, a directory and a link are refused, and keep nobody waiting', async () => {
  for (const file of [at('pipe'), at('socket'), '/dev/zero', at('directory'), at('link')]) {
    assert.deepEqual(await both(file), ['NO_PLAIN_FILE', 'NO_PLAIN_FILE'], file);
    await assert.rejects(openPlainFile(file), { code: 'NO_PLAIN_FILE' });
  }
});

test('one that is not there is the system’s error', async () => {
  assert.deepEqual(await both(at('nothing')), ['ENOENT', 'ENOENT']);
});
