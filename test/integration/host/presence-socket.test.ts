import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';
import { bundleProgram } from '../../../scripts/bundle.mjs';
import { listenerOf } from '../../../src/host/index.ts';
import { eventually } from '../../fixtures/eventually.ts';

suite('the program container-disk', () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'presence-'));
  const program = path.join(dir, 'container-disk.mjs');
  const socket = path.join(dir, 'shared/hp.sock');
  const started: ChildProcess[] = [];
  before(() => bundleProgram('container-disk', program));
  after(async () => {
    for (const child of started.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    rmSync(dir, { recursive: true, force: true });
  });

  const start = (...args: string[]) => {
    const child = spawn(process.execPath, [program, ...args], { stdio: 'ignore' });
    started.push(child);
    return child;
  };
  const listening = async () => {
    const child = start('--copy-path', path.join(dir, 'shared/hp'));
    await eventually(async () => assert.equal((await listenerOf(socket, 1_000)).pid, child.pid));
    return { child, ended: once(child, 'exit') };
  };

  test('is who listens, and lets go what connects', async () => {
    const { child, ended } = await listening();
    const client = connect(socket);
    await once(client, 'close');
    child.kill('SIGTERM');
    assert.deepEqual([await ended, existsSync(socket)], [[0, null], false]);
  });

  test('ends when its socket is removed', async () => {
    const { ended } = await listening();
    rmSync(socket);
    assert.deepEqual(await ended, [0, null]);
  });

  test('takes the place of one that was killed, and of no one that lives', async () => {
    const first = await listening();
    assert.deepEqual(await once(start('--copy-path', path.join(dir, 'shared/hp')), 'exit'), [1, null]);
    first.child.kill('SIGKILL');
    await first.ended;
    assert.ok(existsSync(socket));
    const second = await listening();
    second.child.kill('SIGTERM');
    await second.ended;
  });

  test('does nothing when it is asked to, and says what is wrong with its command line', async () => {
    assert.deepEqual(await once(start('--no-op'), 'exit'), [0, null]);
    assert.deepEqual(await once(start(), 'exit'), [1, null]);
    assert.deepEqual(await once(start('--what'), 'exit'), [1, null]);
    assert.deepEqual(await once(start('--copy-path', path.join(dir, 'x'.repeat(120))), 'exit'), [1, null]);
  });
});
