import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'only root can run a node';

describe('programs of a node that hang', { skip: needsRoot }, () => {
  let node: NodeProcess;
  before(async () => {
    node = await NodeProcess.create();
    await node.start(['start', '--web-port', '0']);
  });
  after(() => node.dispose());

  test('are ended and started again, with the reason in the log, and virtual machines stay', async () => {
    await node.apply(demoVmi('stays'));
    await node.vmiUntil('stays', (vmi) => vmi?.status?.phase === 'Running', 120_000);
    const qemu = await node.qemuPid('stays');
    assert.ok(qemu);
    const names = ['apiserver', 'virt-handler'] as const;
    const before = await Promise.all(names.map((name) => node.pidOf(name)));
    for (const pid of before) process.kill(pid, 'SIGSTOP');
    await eventually(async () => {
      const now = await Promise.all(names.map((name) => node.pidOf(name)));
      assert.ok(now.every((pid, index) => pid > 0 && pid !== before[index]));
    }, 150_000);
    const log = await readFile(path.join(node.paths.logDir, 'virt-node.log'), 'utf8');
    assert.equal(log.split('program does not answer and is ended').length - 1, 2);
    const found = await node.vmiUntil('stays', (vmi) => vmi?.status?.phase === 'Running', 60_000);
    assert.equal(found?.status?.phase, 'Running');
    assert.equal(await node.qemuPid('stays'), qemu);
  });
});
