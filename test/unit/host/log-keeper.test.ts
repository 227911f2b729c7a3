import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { appendFile, mkdtemp, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { LogKeeper, parseLogStart, rotateLog } from '../../../src/host/index.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';

describe('the log of a pod', () => {
  let dir: string;
  let log: string;
  const older = () => readFile(`${log}.1`, 'utf8');

  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'virt-pod-log-'));
    log = path.join(dir, 'compute.log');
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  test('begins anew above its limit, and its last part is kept', async () => {
    await writeFile(log, '0123456789');
    await rotateLog(log, { maxBytes: 10 });
    await assert.rejects(older(), { code: 'ENOENT' });
    await appendFile(log, 'ab');
    await rotateLog(log, { maxBytes: 10 });
    assert.equal(await older(), '23456789ab');
    assert.equal((await stat(log)).size, 0);
    await appendFile(log, 'next part of it');
    await rotateLog(log, { maxBytes: 10 });
    assert.equal(await older(), 'part of it');
  });

  test('that is written to while it is read loses nothing', async () => {
    const maxBytes = 4 * 2 ** 20;
    await writeFile(log, `${'-'.repeat(maxBytes + 1)}\n`);
    let count = 0;
    const writing = setInterval(() => appendFileSync(log, `${count++}\n`), 0);
    await rotateLog(log, { maxBytes, counts: true });
    await eventually(async () => assert.ok((await stat(log)).size > 0));
    clearInterval(writing);
    const [first, second] = [await older(), await readFile(log, 'utf8')];
    const heard = (first.slice(first.lastIndexOf('-') + 2) + second).split('\n').filter(Boolean).map(Number);
    assert.deepEqual(
      heard,
      Array.from({ length: count }, (_, number) => number),
    );
    const start = parseLogStart(await readFile(`${log}.start`, 'utf8'));
    const { length } = heard.map((number) => `${number}\n`).join('');
    assert.equal(start + second.length, maxBytes + 2 + length);
  });

  test('that its pod made terabytes long takes no more room and time than its limit', async () => {
    await writeFile(log, 'text');
    await truncate(log, 2 ** 42);
    await rotateLog(log, { maxBytes: 1_000 });
    assert.equal((await stat(`${log}.1`)).size, 1_000);
    assert.equal((await stat(log)).size, 0);
  });

  test('is cut as it grows, however long it is until the next look at its pod, and until it is forgotten', async () => {
    const keeper = new LogKeeper({ maxBytes: 1_000 }, { clock: systemClock, log: silentLogger });
    await writeFile(log, 'text');
    keeper.keep(log);
    keeper.keep(log);
    for (const letter of ['a', 'b', 'c']) {
      await appendFile(log, letter.repeat(5_000));
      await eventually(async () => assert.equal(await older(), letter.repeat(1_000)));
      await eventually(async () => assert.equal((await stat(log)).size, 0));
    }
    keeper.forgetAll();
    await appendFile(log, 'd'.repeat(5_000));
    await stays(async () => assert.equal((await stat(log)).size, 5_000), 300);
  });

  test('is not looked for through a link, nor its older part written through one', async () => {
    const other = path.join(dir, 'other');
    await writeFile(other, 'a'.repeat(50));
    await symlink(other, log);
    await assert.rejects(rotateLog(log, { maxBytes: 10 }), { code: 'ELOOP' });
    await rm(log);
    await writeFile(log, 'b'.repeat(50));
    await symlink(other, `${log}.1`);
    await assert.rejects(rotateLog(log, { maxBytes: 10 }), { code: 'ELOOP' });
    assert.equal(await readFile(other, 'utf8'), 'a'.repeat(50));
  });

  test('whose bytes are counted tells how many were taken away', async () => {
    const begins = async () => parseLogStart(await readFile(`${log}.start`, 'utf8'));
    for (const [round, bytes] of [25, 17].entries()) {
      await appendFile(log, 'x'.repeat(bytes));
      await rotateLog(log, { maxBytes: 10, counts: true });
      assert.equal(await begins(), [25, 42][round]);
    }
    for (const text of ['', '-1', '1e3', '9'.repeat(16)]) assert.equal(parseLogStart(text), 0);
  });

  test('is taken up by the next look when it is not there yet', async () => {
    const keeper = new LogKeeper({ maxBytes: 1_000 }, { clock: systemClock, log: silentLogger });
    keeper.keep(log);
    await writeFile(log, 'a'.repeat(5_000));
    await eventually(async () => {
      keeper.keep(log);
      assert.equal((await stat(log)).size, 0);
    });
    keeper.forgetAll();
  });
});
