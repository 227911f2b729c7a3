import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findCondition } from '../../../src/api/index.ts';
import { listOf, memberAt } from '../../../src/base/index.ts';
import { BackupNode, type Day, places } from '../../fixtures/backup-node.ts';
import { eventually } from '../../fixtures/eventually.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const patienceMs = 60_000;
describe('backups of a guest that runs, on the standalone node', { skip: needsRoot }, () => {
  let kept: BackupNode;
  let outside = '';
  before(async () => {
    outside = mkdtempSync(path.join(tmpdir(), 'backups-'));
    kept = await BackupNode.start();
  });
  after(async () => {
    await kept?.node.dispose();
    rmSync(outside, { recursive: true, force: true });
  });

  /** Ends when it is complete; gives what its status says and the file of the one disk. */
  async function complete(name: string): Promise<{ type: string | undefined; file: string }> {
    await kept.node.kubectl('wait', `vmbackup/${name}`, '--for=condition=Complete', `--timeout=${patienceMs / 1000}s`);
    const { status } = await kept.backup(name);
    const target = status?.includedVolumes?.[0]?.diskTarget ?? '';
    const found = execFileSync('find', [await kept.directoryOf('backups'), '-name', `${name}-data.qcow2`], {
      encoding: 'utf8',
    });
    const [file = assert.fail(`no file of ${name}: ${target}`)] = found.trim().split('\n');
    return { type: status?.type, file };
  }
  const dayIn = (raw: string, day: Day) =>
    readFileSync(raw)
      .subarray(places[day], places[day] + day.length)
      .toString('latin1');
  /** As the guide says: each incremental one onto the one before it, and a disk of the last. */
  function restored(files: readonly string[]): string {
    const copies = files.map((file, at) => {
      const copy = path.join(outside, `${at}.qcow2`);
      execFileSync('cp', [file, copy]);
      return copy;
    });
    for (const [at, copy] of copies.entries()) {
      const base = copies[at - 1];
      if (base) execFileSync('qemu-img', ['rebase', '-u', '-F', 'qcow2', '-b', base, copy]);
    }
    const raw = path.join(outside, 'restored.img');
    execFileSync('qemu-img', ['convert', '-O', 'raw', copies.at(-1) ?? '', raw]);
    return raw;
  }

  const files: string[] = [];

  test('the first by a tracker is of the whole disk', async () => {
    await kept.writeInGuest('monday');
    await kept.order('monday');
    const { type, file } = await complete('monday');
    assert.equal(type, 'Full');
    files.push(file);
    assert.equal(dayIn(restored(files), 'monday'), 'monday');
    const [header = '', line = ''] = (await kept.node.kubectl('get', 'vmbackup', 'monday')).split('\n');
    assert.match(header, /NAME/);
    assert.match(line, /monday/);
  });

  test('the next is of what has changed since, and both together are the disk', async () => {
    await kept.writeInGuest('tuesday');
    await kept.order('tuesday');
    const { type, file } = await complete('tuesday');
    assert.equal(type, 'Incremental');
    files.push(file);
    assert.ok(statSync(file).blocks * 512 < 2 ** 20, `${statSync(file).blocks * 512} bytes of an incremental backup`);
    const raw = restored(files);
    assert.deepEqual([dayIn(raw, 'monday'), dayIn(raw, 'tuesday')], ['monday', 'tuesday']);
  });

  test('the claim is free again, and the VM says nothing of a backup', async () => {
    await eventually(async () => {
      const vmi = await kept.node.vmi('kept');
      assert.deepEqual(listOf(memberAt(vmi, 'spec', 'utilityVolumes')), []);
      assert.equal(memberAt(vmi, 'status', 'changedBlockTracking', 'backupStatus'), undefined);
    }, patienceMs);
  });

  test('goes on with the checkpoint after the guest was started anew: the launcher is told of it', async () => {
    await kept.turn('Halted');
    await kept.turn('Always');
    await kept.writeInGuest('wednesday');
    await kept.order('wednesday');
    const { type, file } = await complete('wednesday');
    assert.equal(type, 'Incremental');
    files.push(file);
    const raw = restored(files);
    for (const day of ['monday', 'tuesday', 'wednesday'] as const) assert.equal(dayIn(raw, day), day);
    await kept.turn('Halted');
    execFileSync('qemu-img', [
      'compare',
      '-f',
      'raw',
      '-F',
      'raw',
      raw,
      path.join(await kept.directoryOf('data'), 'disk.img'),
    ]);
  });

  test('of a VM that does not run waits and says so, also to `explain`, and is made when it runs', async () => {
    await kept.order('later');
    await eventually(async () => {
      const { status } = await kept.backup('later');
      assert.match(findCondition(status?.conditions, 'Progressing')?.message ?? '', /run/);
    }, patienceMs);
    assert.match((await kept.node.cli(['explain', 'vmbackup/later'])).stdout, /later/);
    await kept.turn('Always');
    assert.equal((await complete('later')).type, 'Incremental');
  });

  test('goes on with a checkpoint of an order that is older than the guest, which the launcher knows', async () => {
    await kept.order('next');
    assert.equal((await complete('next')).type, 'Incremental');
  });
});
