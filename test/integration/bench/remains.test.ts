import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { endRemains, proxiesOf } from '../../../scripts/bench-remains.mjs';
import { findHaproxy } from '../../../src/agent/migration-proxy/haproxy-process.ts';
import { eventually } from '../../fixtures/eventually.ts';

const haproxy = findHaproxy();
const dirs = [0, 1].map(() => realpathSync(mkdtempSync(path.join(tmpdir(), 'remains-'))));
after(() => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

/** As an agent starts it: with the directory as its place, in which it has an empty root. */
function startProxy(dir: string): ChildProcess {
  const place = path.join(dir, 'agent');
  mkdirSync(path.join(place, 'empty'), { recursive: true });
  const global = `global\n  chroot ${place}/empty\n  stats socket ${place}/control\n`;
  const config = path.join(place, 'config');
  writeFileSync(config, `${global}defaults\n  timeout client 1s\n  timeout server 1s\n  timeout connect 1s\n`);
  return spawn(haproxy ?? '', ['-db', '-f', config], { cwd: place, env: {}, detached: true, stdio: 'ignore' });
}

test('a bench that was ended leaves no proxy, and those of others run on', {
  skip: haproxy ? false : 'haproxy is missing',
}, async () => {
  const [ours = '', theirs = ''] = dirs;
  const [own, other] = [startProxy(ours), startProxy(theirs)];
  await eventually(() => assert.deepEqual([proxiesOf(ours), proxiesOf(theirs)], [[own.pid], [other.pid]]));
  const ended = once(own, 'exit');
  endRemains(ours);
  assert.deepEqual(await ended, [null, 'SIGKILL']);
  assert.deepEqual([proxiesOf(ours), proxiesOf(theirs)], [[], [other.pid]]);
  const alsoEnded = once(other, 'exit');
  other.kill('SIGKILL');
  await alsoEnded;
});
