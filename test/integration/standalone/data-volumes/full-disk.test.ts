import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { resources } from '../../../../src/api/index.ts';
import { type DataVolumeNode, startDataVolumeNode, storage } from '../../../fixtures/data-volume-node.ts';
import { DiskServer } from '../../../fixtures/disk-server.ts';

const needsRoot = process.geteuid?.() === 0 ? false : 'a small disk is mounted by root';
const mib = 2 ** 20;

describe('claims on a disk that is full', { skip: needsRoot }, () => {
  let node: DataVolumeNode;
  let url: string;
  const server = new DiskServer();
  const mount = (...args: string[]) => execFileSync('mount', [...args, node.claimsDir], { stdio: 'pipe' });

  before(async () => {
    url = await server.start();
    server.files.set('/disk', { bytes: Buffer.alloc(3 * mib, 'x') });
    node = await startDataVolumeNode();
    await node.stopController();
    await mkdir(node.claimsDir, { recursive: true });
    mount('-t', 'tmpfs', '-o', 'size=4m,mode=700', 'virt-node-test');
    await node.startController();
  });
  after(async () => {
    await node?.stopController();
    execFileSync('umount', ['-l', node.claimsDir]);
    await node?.stop();
    await server.stop();
  });

  test('it is said, tried again, and done when there is room', async () => {
    await node.create('large', { source: { http: { url: `${url}/disk` } }, ...storage('4Mi') });
    await node.untilProblem('large', /the disk of this machine is full: free some space/);
    assert.equal((await node.find('large'))?.status?.phase, 'ImportInProgress');
    await node.isBlank('large');
    assert.deepEqual(await node.leftovers(), []);
    mount('-o', 'remount,size=32m');
    await node.until('large', 'Succeeded');
    assert.equal((await readFile(await node.disk('large'))).length, 4 * mib);
  });

  test('an image of the node is not copied without room for it', async () => {
    mount('-o', 'remount,size=8m');
    const file = path.join(node.api.dir, 'raw');
    await writeFile(file, Buffer.alloc(8 * mib, 'y'));
    await node.images.add('big', file);
    await node.create('copied', { source: { registry: { url: 'docker://big' } }, ...storage('8Mi') });
    await node.untilProblem('copied', /image big needs 8388608 bytes, and \d+ are free/);
    await node.client.delete(resources.dataVolumes, { namespace: 'default', name: 'copied' });
  });
});
