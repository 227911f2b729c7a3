import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { bundleForRepository } from '../../../scripts/bundle.mjs';
import { createLogger } from '../../../src/base/index.ts';
import { LogDestination } from '../../../src/base/log-destination.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { MountNamespace } from '../../fixtures/mount-namespace.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'a file system of its own needs root';

describe('the log of a program on a full disk', { skip: needsRoot }, () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'log-'));
  let machine: MountNamespace;
  let [file, ballast] = ['', ''];

  before(async () => {
    machine = await MountNamespace.start(`mount -t tmpfs -o size=256k tmpfs ${dir}`);
    [file, ballast] = ['log', 'ballast'].map((name) => `${machine.root}${dir}/${name}`) as [string, string];
  });
  after(async () => {
    await machine.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  function fill(): void {
    assert.throws(() => writeFileSync(ballast, Buffer.alloc(2 ** 20)), { code: 'ENOSPC' });
  }
  /** But one that was cut. */
  const lines = (): Record<string, unknown>[] =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line.endsWith('}'))
      .map((line) => JSON.parse(line));

  test('loses lines, does not throw, and tells once how many as soon as there is room', () => {
    const log = createLogger({ component: 'test', file });
    log.info('before');
    fill();
    const padding = 'x'.repeat(5_000);
    const heapBefore = process.memoryUsage().heapUsed;
    for (let at = 0; at < 20_000; at++) log.child({ at }).info({ padding }, 'on a full disk');
    assert.ok(process.memoryUsage().heapUsed < heapBefore + 50 * 2 ** 20, 'what is lost is not kept');
    log.fatal('nor does this end the program');
    rmSync(ballast);
    log.info('after');
    log.info('later');
    const [first, ...rest] = lines().filter(({ padding: given }) => given === undefined);
    assert.equal(first?.msg, 'before');
    const [told, ...others] = rest;
    const written = lines().filter(({ padding: given }) => given !== undefined).length;
    const { level, component, msg, reason, lost, since, timestamp } = told ?? {};
    assert.deepEqual(
      { level, component, msg, reason },
      { level: 'warn', component: 'test', msg: 'lines of this log were lost', reason: 'ENOSPC' },
    );
    assert.equal(lost, 20_001 - written);
    assert.ok(String(since) <= String(timestamp), `${since} to ${timestamp}`);
    assert.deepEqual(
      others.map((line) => line.msg),
      ['after', 'later'],
    );
  });

  test('a line of which half was written is ended before the next one, and is one of those that are lost', () => {
    truncateSync(file, 0);
    const fd = openSync(file, 'a');
    const destination = new LogDestination(fd, ({ count, reason }) => `${count} lost: ${reason}\n`);
    fill();
    // As much room as a page, so that a longer line is cut.
    truncateSync(ballast, 2 ** 17);
    const long = `${'y'.repeat(2 ** 20)}\n`;
    destination.write(long);
    destination.write('short\n');
    rmSync(ballast);
    destination.write('again\n');
    closeSync(fd);
    const [torn = '', ...rest] = readFileSync(file, 'utf8').split('\n');
    assert.match(torn, /^y+$/);
    assert.ok(torn.length < 2 ** 20);
    assert.deepEqual(rest, ['2 lost: ENOSPC', 'again', '']);
  });
});

test('a pipe without a reader loses lines, and tells the next reader', async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), 'log-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const fifo = path.join(dir, 'pipe');
  execFileSync('mkfifo', [fifo]);
  const reader = spawn('head', ['-n', '1', fifo], { stdio: 'ignore' });
  const log = createLogger({ component: 'test', file: fifo });
  log.info('first');
  await once(reader, 'exit');
  log.info('lost');
  log.fatal('lost, too');
  const next = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
  t.after(() => closeSync(next));
  log.info('again');
  const read = Buffer.alloc(10_000);
  const seen = read.toString('utf8', 0, readSync(next, read)).trim().split('\n');
  const [told, again, ...rest] = seen.map((line) => JSON.parse(line));
  assert.deepEqual([told.lost, told.reason, again.msg, rest], [2, 'EPIPE', 'again', []]);
});

test('a program whose standard output is a socket that nobody reads, and then nobody has, goes on', async (t) => {
  await mkdir('.build', { recursive: true });
  // Below the repository, so that its packages are found.
  const dir = mkdtempSync(path.resolve('.build', 'log-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  await bundleForRepository(['test/fixtures/log-main.ts'], dir, 'test/fixtures');
  const told = path.join(dir, 'told');
  const child = spawn(process.execPath, [path.join(dir, 'log-main.mjs'), told], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child.stdout.pause();
  await eventually(() => assert.equal(readFileSync(told, 'utf8'), 'wrote'));
  child.stdout.destroy();
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [7, null]);
  assert.equal(readFileSync(told, 'utf8'), 'went on');
});
