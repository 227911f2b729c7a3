import assert from 'node:assert/strict';
import { chmod, chown, mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { VirtualMachineInstance } from '../../src/api/index.ts';
import { eventually } from '../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

describe('a VM that asks for a file of the host', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let closed: string;
  let open: string;
  let start: string[];
  const ownerOf = async (file: string) => {
    const { uid, gid } = await stat(file);
    return [uid, gid];
  };

  function withDisk(name: string, file: string): VirtualMachineInstance {
    const vmi = demoVmi(name);
    vmi.spec.domain.devices = { ...vmi.spec.domain.devices, disks: [{ name: 'file', disk: { bus: 'virtio' } }] };
    vmi.spec.volumes = [{ name: 'file', hostDisk: { path: file, type: 'Disk' } }];
    return vmi;
  }

  before(async () => {
    node = await NodeProcess.create();
    [closed = '', open = ''] = await Promise.all(
      ['closed', 'open'].map((name) => mkdtemp(path.join(tmpdir(), `${name}-`))),
    );
    start = ['start', '--host-disk-dirs', open];
    await chmod(closed, 0o755);
    await writeFile(path.join(closed, 'secret'), 'x'.repeat(4096), { mode: 0o600 });
    await writeFile(path.join(open, 'disk.img'), '', { mode: 0o600 });
    await truncate(path.join(open, 'disk.img'), 2 ** 20);
    await chown(path.join(open, 'disk.img'), 1234, 1234);
    await node.start(start);
  });
  after(async () => {
    await node.dispose();
    for (const dir of [closed, open]) await rm(dir, { recursive: true, force: true });
  });

  test('does not get one that is not open to VMs; the event says which field and what to do, and the owner stays', async () => {
    const file = path.join(closed, 'secret');
    await node.apply(withDisk('thief', file));
    await eventually(async () => {
      const events = await node.kubectl('get', 'events', '-o', 'json');
      assert.match(events, /spec\.volumes\[file\]\.hostDisk: .*closed-.* is not a file below .*--host-disk-dirs/);
    });
    assert.notEqual((await node.vmi('thief'))?.status?.phase, 'Running');
    assert.deepEqual([await ownerOf(file), await readFile(file, 'utf8')], [[0, 0], 'x'.repeat(4096)]);
    await node.kubectl('delete', 'vmi', 'thief');
  });

  test('has an open one while it runs; then its owner has it again', async () => {
    const file = path.join(open, 'disk.img');
    await node.apply(withDisk('guest', file));
    await node.vmiUntil('guest', (vmi) => vmi?.status?.phase === 'Running');
    assert.deepEqual(await ownerOf(file), [107, 107]);
    await node.kubectl('delete', 'vmi', 'guest');
    await eventually(async () => assert.deepEqual(await ownerOf(file), [1234, 1234]));
  });

  test('gives it back, too, when node and VM were killed together', async () => {
    const file = path.join(open, 'disk.img');
    await node.apply(withDisk('crashed', file));
    await node.vmiUntil('crashed', (vmi) => vmi?.status?.phase === 'Running');
    const qemu = (await node.qemuPid('crashed')) ?? 0;
    await node.end('SIGKILL');
    process.kill(qemu, 'SIGKILL');
    await node.start(start);
    await eventually(async () => assert.deepEqual(await ownerOf(file), [1234, 1234]), 30_000);
  });
});
