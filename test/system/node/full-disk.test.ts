import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { untilLogin } from '../../../src/standalone/index.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { demoVmi, launcherPid, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const programs = ['apiserver', 'virt-controller', 'virt-handler'] as const;

describe('a standalone node whose disk is full', { skip: needsRoot }, () => {
  const disk = mkdtempSync(path.join(tmpdir(), 'virt-node-disk-'));
  const ballast = path.join(disk, 'ballast');
  let node: NodeProcess;

  before(async () => {
    execFileSync('mount', ['-n', '-t', 'tmpfs', '-o', 'size=256m,mode=700', 'tmpfs', disk]);
    node = await NodeProcess.create(disk);
    await node.start();
    await node.apply(demoVmi('stays'));
    await node.vmiUntil('stays', (vmi) => vmi?.status?.phase === 'Running');
    await untilLogin(await node.serial('stays'), AbortSignal.timeout(60_000));
  });
  after(async () => {
    rmSync(ballast, { force: true });
    await node.dispose();
    execFileSync('umount', ['-n', disk]);
    rmSync(disk, { recursive: true, force: true });
  });

  /** To the last byte. */
  function fill(): void {
    assert.throws(
      () => {
        for (;;) appendFileSync(ballast, Buffer.alloc(2 ** 16));
      },
      { code: 'ENOSPC' },
    );
    assert.throws(
      () => {
        for (;;) appendFileSync(ballast, 'x');
      },
      { code: 'ENOSPC' },
    );
    assert.equal(statfsSync(disk).bavail, 0);
  }

  const pids = async () => [node.pid, ...(await Promise.all(programs.map((name) => node.pidOf(name))))];

  test('every program goes on, and so does the guest; a change is refused in words; with room again all of it works, and the logs tell what they lost', async () => {
    const vmi = await node.vmi('stays');
    const [before, qemu, launcher] = [
      await pids(),
      await node.qemuPid('stays'),
      await launcherPid(vmi?.metadata.uid ?? ''),
    ];
    fill();
    // The database has room for some changes yet.
    await eventually(async () => {
      const annotation = `padding=${'x'.repeat(10_000)}`;
      const refused = await node.kubectl('annotate', '--overwrite', 'vmi', 'stays', annotation).catch(String);
      assert.match(refused, /No space left on device: free some space there\s*$/);
    });
    // Each refusal is a line, which what is left of its log's last block takes for a while.
    await stays(async () => {
      await node
        .kubectl('annotate', '--overwrite', 'vmi', 'stays', `padding=${'y'.repeat(10_000)}`)
        .catch(() => undefined);
      assert.deepEqual(await pids(), before);
    }, 15_000);
    const status = await node.cli(['status']);
    assert.deepEqual([status.code, status.stderr], [0, '']);
    assert.equal(await node.qemuPid('stays'), qemu);
    assert.equal(await launcherPid(vmi?.metadata.uid ?? ''), launcher);
    await untilLogin(await node.serial('stays'), AbortSignal.timeout(60_000));
    rmSync(ballast);
    await eventually(() => node.apply(demoVmi('late')).then(() => undefined), 60_000);
    await node.vmiUntil('late', (found) => found?.status?.phase === 'Running');
    await node.kubectl('delete', 'vmi', 'late', 'stays');
    assert.deepEqual(await pids(), before);
    const logs = await readdir(node.paths.logDir);
    const texts = logs.map((file) => readFileSync(path.join(node.paths.logDir, file), 'utf8'));
    const told = texts.flatMap((text) =>
      text.split('\n').filter((line) => line.includes('lines of this log were lost')),
    );
    assert.ok(told.length > 0);
    for (const line of told) assert.equal(JSON.parse(line).reason, 'ENOSPC');
  });

  test('kill -9 of everything on a full disk, and then `stop`: nothing of it runs on', async () => {
    await node.apply(demoVmi('late-two', { terminationGracePeriodSeconds: 2 }));
    await node.vmiUntil('late-two', (found) => found?.status?.phase === 'Running');
    const all = await pids();
    fill();
    await node.end('SIGKILL');
    for (const pid of all.slice(1)) process.kill(pid, 'SIGKILL');
    const stopped = await node.cli(['stop']);
    assert.equal(await node.qemuPid('late-two'), undefined, stopped.stdout + stopped.stderr);
    assert.match(stopped.stdout, /what it left: .*the pod of a virtual machine[\s\S]*\nended\n$/, stopped.stderr);
    assert.equal(stopped.code, 0);
    rmSync(ballast);
    writeFileSync(path.join(disk, 'room'), 'again');
    await node.start();
    await node.vmiUntil('late-two', (found) => found?.status?.phase === 'Failed');
  });
});
