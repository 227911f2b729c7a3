import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';

/** image/parts.mjs when a build is ended half way: what it left must not count as whole. apt is one that does what `MODE` says. */

const apt = `#!/bin/bash
echo "$(basename "$0") \${!#}" >> "$CALLS"
case "$* " in
  *" update "*) [ "$MODE" != ends-update ] || kill -9 $PPID ;;
  *" policy "*) echo '  Candidate: 1.0' ;;
  *" download "*)
    file="\${!#}"; file="\${file%%=*}_\${file#*=}_arm64.deb"
    echo half > "$file"
    [ "$MODE" != ends-download ] || { kill -9 $PPID; exit; }
    echo whole >> "$file" ;;
esac
`;
const wholeSum = createHash('sha256').update('half\nwhole\n').digest('hex');

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'image-parts-'));
  for (const folder of ['image', 'bin']) mkdirSync(path.join(dir, folder));
  copyFileSync('image/parts.mjs', path.join(dir, 'image/parts.mjs'));
  writeFileSync(path.join(dir, 'image/lock.json'), JSON.stringify({ debian: {}, node: {} }));
  for (const name of ['apt-get', 'apt-cache']) writeFileSync(path.join(dir, 'bin', name), apt, { mode: 0o755 });
  writeFileSync(path.join(dir, 'bin/dpkg'), '#!/bin/sh\necho amd64\n', { mode: 0o755 });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** Locks packages for another architecture than this machine's; what apt was asked for. */
function updateLock(mode: string) {
  const calls = path.join(dir, 'calls');
  rmSync(calls, { force: true });
  const env = { ...process.env, PATH: `${path.join(dir, 'bin')}:${process.env.PATH}`, MODE: mode, CALLS: calls };
  const script = "import('./image/parts.mjs').then(({ updateLock }) => updateLock('arm64'))";
  const run = spawnSync(process.execPath, ['-e', script], { cwd: dir, encoding: 'utf8', env });
  const asked = existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : [];
  return { signal: run.signal, status: run.status, stderr: run.stderr, asked };
}

const locked = () => JSON.parse(readFileSync(path.join(dir, 'image/lock.json'), 'utf8')).debian.arm64;

test('a package of which half was fetched is fetched again, and not locked as it is', () => {
  assert.equal(updateLock('ends-download').signal, 'SIGKILL');
  const { status, stderr } = updateLock('whole');
  assert.equal(status, 0, stderr);
  for (const { sha256 } of Object.values<{ sha256: string }>(locked())) assert.equal(sha256, wholeSum);
});

test('lists of another architecture of which half was fetched are fetched again', () => {
  assert.equal(updateLock('ends-update').signal, 'SIGKILL');
  const { status, stderr, asked } = updateLock('whole');
  assert.equal(status, 0, stderr);
  assert.ok(asked.includes('apt-get update'), asked.join());
});

test('an update of the lock asks the mirror anew each time', () => {
  for (const time of ['first', 'second']) {
    const { status, stderr, asked } = updateLock('whole');
    assert.equal(status, 0, stderr);
    assert.ok(asked.includes('apt-get update'), `${time}: ${asked.join()}`);
  }
});
