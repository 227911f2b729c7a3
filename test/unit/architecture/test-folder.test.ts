import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { folderOfRun } from '../../../scripts/test-folder.mjs';

const dayBeforeYesterday = new Date(Date.now() - 2 * 24 * 3_600_000);

test('the folder of a run is empty, whatever its process id has left, and those of dead processes go', () => {
  const root = mkdtempSync(path.join(tmpdir(), 'test-folder-'));
  try {
    const dead = spawnSync('true').pid;
    const deadLately = spawnSync('true').pid;
    mkdirSync(path.join(root, `${process.pid}/programs/of-an-older-tree`), { recursive: true });
    for (const pid of [dead, deadLately, process.ppid]) mkdirSync(path.join(root, String(pid)));
    for (const pid of [dead, process.ppid]) {
      utimesSync(path.join(root, String(pid)), dayBeforeYesterday, dayBeforeYesterday);
    }
    const folder = folderOfRun(root);
    assert.deepEqual(readdirSync(folder), []);
    assert.deepEqual(readdirSync(root).sort(), [process.pid, deadLately, process.ppid].map(String).sort());
  } finally {
    rmSync(root, { recursive: true });
  }
});

test('the folder of a run goes when the run ends', () => {
  const root = mkdtempSync(path.join(tmpdir(), 'test-folder-'));
  try {
    const script = `const { folderOfRun } = await import(process.cwd() + '/scripts/test-folder.mjs'); console.log(folderOfRun(${JSON.stringify(root)}))`;
    const folder = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' }).trim();
    assert.equal(path.dirname(folder), root);
    assert.equal(existsSync(folder), false);
  } finally {
    rmSync(root, { recursive: true });
  }
});
