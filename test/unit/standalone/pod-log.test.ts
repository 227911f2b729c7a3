import assert from 'node:assert/strict';
import { appendFile, mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { LogKeeper, rotateLog } from '../../../src/standalone/pod-runner/pod-log.ts';
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
    await rotateLog(log, 10);
    await assert.rejects(older(), { code: 'ENOENT' });
    await appendFile(log, 'ab');
    await rotateLog(log, 10);
    assert.equal(await older(), '23456789ab');
    assert.equal((await stat(log)).size, 0);
    await appendFile(log, 'next part of it');
    await rotateLog(log, 10);
    assert.equal(await older(), 'part of it');
  });

  test('that its pod made terabytes long takes no more room and time than its limit', async () => {
    await writeFile(log, 'text');
    await truncate(log, 2 ** 42);
    await rotateLog(log, 1_000);
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
