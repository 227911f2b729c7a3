import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { bundleProgram } from '../../../../scripts/bundle.mjs';

/** A volume of a running guest whose server is gone: the agent looks at its volumes in each reconcile, in its only thread. */

/** What the fixture says where FUSE cannot be mounted. */
const cannotMount = 77;
const silent = path.resolve('test/fixtures/silent-file-system.pl');

function underSilence(target: string, ...program: readonly string[]) {
  const args = ['--mount', '--propagation', 'private', 'perl', silent, target, ...program];
  return spawnSync('unshare', args, { encoding: 'utf8', timeout: 60_000 });
}

const canMount = process.getuid?.() === 0 && underSilence(path.resolve('package.json'), 'true').status !== cannotMount;

test('a volume whose file system does not answer holds up no look at what is plugged', {
  skip: canMount ? false : 'only root mounts file systems by FUSE, where the machine has it',
}, async (t) => {
  const dir = mkdtempSync(path.resolve('.build', 'silent-volume-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const program = path.join(dir, 'plugged-main.mjs');
  await bundleProgram('../../test/fixtures/plugged-main', program);
  writeFileSync(path.join(dir, 'data.img'), '');
  const { status, stdout } = underSilence(path.join(dir, 'data.img'), process.execPath, program, dir, 'data.img');
  assert.deepEqual([status, stdout], [0, 'mounted']);
});
