import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, type TestContext, test } from 'node:test';
import { recordDirectory } from '../../../src/host/index.ts';
import { stays } from '../../fixtures/eventually.ts';

let directory: string;
beforeEach(() => {
  directory = path.join(mkdtempSync(path.join(tmpdir(), 'record-files-')), 'records');
});
afterEach(() => rmSync(path.dirname(directory), { recursive: true }));

const limits = { maxBytes: 1_000 };
const textOf = (name: string) => readFileSync(path.join(directory, name), 'utf8');

/** A process that holds the directory until it is told to go. */
async function holder(t: TestContext): Promise<{ release(): void }> {
  const child = spawn('flock', [directory, 'sh', '-c', 'echo held; read line'], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill());
  await once(child.stdout, 'data');
  return { release: () => child.stdin.end('\n') };
}

test('a file is made, replaced and removed as long as it is what the caller knows', async () => {
  const files = recordDirectory(directory);
  assert.equal(await files.exchange('a', { before: undefined, after: 'one', ...limits }), true);
  assert.equal(await files.exchange('a', { before: 'one', after: 'two', ...limits }), true);
  assert.equal(textOf('a'), 'two');
  assert.equal(await files.exchange('a', { before: 'two', after: undefined, ...limits }), true);
  assert.equal(await files.exchange('a', { before: 'two', after: undefined, ...limits }), true, 'it is gone already');
  assert.deepEqual(readdirSync(directory), []);
});

test('what is not what the caller knows stays', async () => {
  const files = recordDirectory(directory);
  assert.equal(await files.exchange('a', { before: 'one', after: 'two', ...limits }), false, 'there is none');
  await files.replace('a', 'other');
  for (const before of [undefined, 'one'])
    for (const after of [undefined, 'two'])
      assert.equal(await files.exchange('a', { before, after, ...limits }), false);
  assert.equal(textOf('a'), 'other');
  writeFileSync(path.join(directory, 'a'), 'x'.repeat(2_000));
  await assert.rejects(files.exchange('a', { before: 'one', after: 'two', ...limits }), { code: 'TOO_LARGE' });
});

test('an exchange waits while another process holds the directory, and looks then', async (t) => {
  const files = recordDirectory(directory);
  await files.replace('a', 'one');
  const held = await holder(t);
  const exchange = files.exchange('a', { before: 'one', after: 'two', ...limits });
  let isDone = false;
  void exchange.finally(() => {
    isDone = true;
  });
  await stays(() => assert.equal(isDone, false), 100);
  writeFileSync(path.join(directory, 'a'), 'other');
  held.release();
  assert.equal(await exchange, false);
  assert.equal(textOf('a'), 'other');
});

test('drafts that were left behind are gone after a list, which waits for a process that may be at one', async (t) => {
  const files = recordDirectory(directory);
  await files.replace('a', 'one');
  const draft = path.join(directory, '.a.0123456789ab.tmp');
  writeFileSync(draft, 'two');
  const held = await holder(t);
  const list = files.list();
  await stays(() => assert.ok(existsSync(draft)), 100);
  renameSync(draft, path.join(directory, 'a'));
  writeFileSync(draft, 'left behind');
  held.release();
  assert.deepEqual(await list, ['a']);
  assert.deepEqual(readdirSync(directory), ['a']);
  assert.equal(textOf('a'), 'two');
});

test('a process that keeps the directory is not waited for without end', async (t) => {
  const files = recordDirectory(directory);
  await files.replace('a', 'one');
  await holder(t);
  await assert.rejects(files.exchange('a', { before: 'one', after: 'two', ...limits }), {
    code: 'EAGAIN',
    message: /cannot be locked: another process holds it/,
  });
  assert.equal(textOf('a'), 'one');
});

test('many that change one file side by side lose nothing of each other', async () => {
  const files = recordDirectory(directory);
  await files.replace('a', '');
  const add = async (letter: string): Promise<void> => {
    const before = await files.read('a', limits.maxBytes);
    if (!(await files.exchange('a', { before, after: before + letter, ...limits }))) await add(letter);
  };
  await Promise.all(Array.from('abcdefghijklmnopqrst', add));
  assert.equal([...textOf('a')].sort().join(''), 'abcdefghijklmnopqrst');
});
