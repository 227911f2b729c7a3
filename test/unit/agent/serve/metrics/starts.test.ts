import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { Starts } from '../../../../../src/agent/serve/metrics/starts.ts';
import { silentLogger } from '../../../../../src/base/index.ts';

let privateDir: string;
beforeEach(async () => {
  privateDir = await mkdtemp(path.join(tmpdir(), 'starts-'));
});
afterEach(() => rm(privateDir, { recursive: true }));

const file = () => path.join(privateDir, 'agent-starts');

async function start(): Promise<number | undefined> {
  const starts = new Starts({ privateDir }, { log: silentLogger });
  await starts.start();
  return starts.count;
}

test('each start is counted, also in a directory that is not there yet', async () => {
  privateDir = path.join(privateDir, 'deep');
  assert.deepEqual([await start(), await start()], [1, 2]);
  assert.equal(await readFile(file(), 'utf8'), '2\n');
  privateDir = path.dirname(privateDir);
});

test('what somebody else wrote there counts as nothing', async () => {
  for (const text of ['', 'many', '-4', '12\n13', '9'.repeat(40)]) {
    await writeFile(file(), text);
    assert.equal(await start(), 1, text);
  }
});

for (const [what, make] of [
  ['pipe', () => execFileSync('mkfifo', [file()])],
  ['directory', () => mkdir(file())],
  ['link', () => symlink('/etc/hostname', file())],
  ['gigabyte', () => writeFile(file(), '').then(() => truncate(file(), 2 ** 30))],
] as const) {
  test(`a ${what} in the place of the file keeps no agent from starting, and is left as it is`, async () => {
    await make();
    assert.equal(await start(), undefined);
  });
}
