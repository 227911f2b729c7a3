import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import { Program } from '../../../src/standalone/supervisor/program.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { MountNamespace } from '../../fixtures/mount-namespace.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'a file system of its own needs root';

describe('a program of the node that ends while the disk is full', { skip: needsRoot }, () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'program-disk-'));
  let machine: MountNamespace;
  let program: Program;

  before(async () => {
    machine = await MountNamespace.start(`mount -t tmpfs -o size=64k tmpfs ${dir}`);
  });
  after(async () => {
    await program.stop();
    await machine.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  /** By a word that only their command lines have. */
  const processes = () =>
    readdirSync('/proc').filter((pid) => {
      if (!/^\d+$/.test(pid)) return false;
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(`sleep\0${marker}`);
      } catch {
        return false;
      }
    });
  const marker = `9${process.pid}`;

  test('is started again once, and recorded when there is room', async () => {
    const at = (name: string) => `${machine.root}${dir}/${name}`;
    const files = { logFile: at('log'), pidFile: at('pid') };
    program = new Program({ name: 'lone', argv: ['sleep', marker], env: process.env, ...files }, { log: silentLogger });
    await program.start();
    assert.throws(() => writeFileSync(at('ballast'), Buffer.alloc(2 ** 20)), { code: 'ENOSPC' });
    const [first = ''] = processes();
    process.kill(Number(first), 'SIGKILL');
    await eventually(() => {
      assert.equal(processes().length, 1);
      assert.notEqual(processes()[0], first);
    });
    // With the longest pauses that a program which is not there would have had so far.
    await stays(() => assert.ok(processes().length <= 1, `${processes()}`), 3_000);
    const { state } = program;
    assert.equal(state.kind === 'running' && String(state.pid), processes()[0]);
    rmSync(at('ballast'));
    await eventually(() => assert.equal(readFileSync(files.pidFile, 'utf8').split(' ')[0], processes()[0]));
  });
});
