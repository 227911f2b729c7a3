import assert from 'node:assert/strict';
import { readdir, readFile, stat, truncate } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { untilLogin } from '../../src/standalone/index.ts';
import { eventually } from '../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../fixtures/node-process.ts';
import { PowerCutDisk, whyNoPowerCut } from '../fixtures/power-cut-disk.ts';

const skip = whyNoPowerCut() ?? false;

describe('the power of a whole node fails', { skip }, () => {
  let disk: PowerCutDisk;
  let node: NodeProcess;

  before(async () => {
    disk = await PowerCutDisk.create(1024 * 1024 * 1024);
    node = await NodeProcess.create(disk.dir);
    await node.start();
  });
  after(async () => {
    await node?.dispose();
    await disk?.dispose();
  });

  /** Supervisor, programs, and of each pod the shim and process 1, with which its namespace ends. */
  async function pids(): Promise<number[]> {
    const { podsDir } = node.paths;
    const pods = await readdir(podsDir);
    const files = pods.flatMap((uid) => ['shim', 'pid1'].map((name) => path.join(podsDir, uid, 'sandbox', name)));
    const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')));
    const { runDir } = node.paths;
    // Those of the node's programs, and of the one that serves names where it has a pod network.
    const pidFiles = (await readdir(runDir)).filter((name) => name.endsWith('.pid'));
    const ofPrograms = await Promise.all(pidFiles.map((name) => readFile(path.join(runDir, name), 'utf8')));
    assert.ok(ofPrograms.length >= 3);
    return [node.pid, ...[...ofPrograms, ...texts].map((text) => Number(text.split(' ')[0]))];
  }

  /** All stand still, the disk forgets what was not synced, all are gone. */
  async function powerFailure(): Promise<void> {
    const all = await pids();
    await disk.cut(() => {
      for (const pid of all) process.kill(pid, 'SIGSTOP');
    });
    for (const pid of all) process.kill(pid, 'SIGKILL');
    await node.end('SIGKILL');
    await eventually(() => disk.restore(), 20_000);
  }

  const claim = {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'written' },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '4Mi' } } },
  };
  const { spec } = demoVmi('survivor');
  const disks = [{ name: 'written', disk: { bus: 'virtio' } }];
  const domain = { ...spec.domain, devices: { ...spec.domain.devices, disks } };
  const volumes = [{ name: 'written', persistentVolumeClaim: { claimName: 'written' } }];
  const vm = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name: 'survivor' },
    spec: { runStrategy: 'Always', template: { spec: { ...spec, domain, volumes } } },
  };
  /** One number after the other onto its disk; each is said when the guest's kernel says that it is there for good. */
  const writing =
    'i=0; while :; do i=$((i+1)); echo "number $i" | dd of=/dev/vda bs=512 seek=$i conv=fsync,notrunc 2>/dev/null && echo "said $i"; done';

  /** Types it into the guest's shell; the returned function gives the last number that it said. */
  async function write(): Promise<() => number> {
    await untilLogin(await node.serial('survivor'), AbortSignal.timeout(60_000));
    await node.cli(['console', 'survivor'], 'root\n');
    const stream = await node.serial('survivor');
    // It ends with the power.
    stream.on('error', () => undefined);
    let text = '';
    stream.on('data', (bytes: Buffer) => {
      text += bytes.toString('latin1');
    });
    stream.write(`\n${writing}\n`);
    const said = () => Number([...text.matchAll(/^said (\d+)\r?\n/gm)].at(-1)?.[1] ?? 0);
    await eventually(() => assert.ok(said() > 20), 30_000);
    return said;
  }

  test('the node comes up again with all objects, believes in no process of before, and the VM runs again', async () => {
    await node.apply(claim);
    await node.apply(vm);
    const before = await node.vmiUntil('survivor', (vmi) => vmi?.status?.phase === 'Running');
    const podsBefore = await readdir(node.paths.podsDir);
    const names = Array.from({ length: 20 }, (_, index) => `kept-${index}`);
    for (const name of names) await node.kubectl('create', 'configmap', name, `--from-literal=a=${name}`);
    const said = await write();
    const kept = said();
    await powerFailure();
    const [volume = ''] = await readdir(node.paths.claimsDir);
    const written = await readFile(path.join(node.paths.claimsDir, volume, 'disk.img'), 'latin1');
    const lost = Array.from({ length: kept }, (_, at) => at + 1).filter(
      (number) => !written.startsWith(`number ${number}\n`, number * 512),
    );
    assert.deepEqual(lost, [], `of ${kept} that the guest was told are there for good`);
    await node.start();
    assert.equal(await node.kubectl('get', 'pvc', 'written', '-o', 'jsonpath={.status.phase}'), 'Bound');
    const maps = await node.kubectl('get', 'configmap', '-o', 'jsonpath={.items[*].data.a}');
    assert.deepEqual(maps.split(' ').sort(), [...names].sort());
    const again = await node.vmiUntil(
      'survivor',
      (vmi) => vmi?.status?.phase === 'Running' && vmi.metadata.uid !== before?.metadata.uid,
      60_000,
    );
    assert.ok(again);
    assert.ok(await node.qemuPid('survivor'));
    const uids = await node.kubectl('get', 'pod', '-o', 'jsonpath={.items[?(@.status.phase=="Running")].metadata.uid}');
    assert.equal(uids.split(' ').filter((uid) => podsBefore.includes(uid)).length, 0, 'a pod of before is said to run');
    assert.doesNotMatch(await node.kubectl('get', 'events'), /DatabaseLostWrites/);
  });

  test('torn records of the agent harm no VM', async () => {
    const qemu = await node.qemuPid('survivor');
    const records = path.join(node.paths.privateDir, 'ghost-records');
    const files = await readdir(records);
    assert.ok(files.length > 0);
    const handler = await node.pidOf('virt-handler');
    for (const file of files) await truncate(path.join(records, file), 0);
    process.kill(handler, 'SIGKILL');
    await eventually(async () => assert.notEqual(await node.pidOf('virt-handler'), handler), 20_000);
    await node.kubectl('annotate', 'vmi', 'survivor', 'test=look');
    // The record comes back once the agent has found the launcher again.
    await eventually(async () => {
      const found = (await readdir(records)).filter((name) => !name.endsWith('.corrupt'));
      assert.deepEqual(
        found,
        files.filter((name) => !name.endsWith('.corrupt')),
      );
    }, 30_000);
    assert.equal(await node.qemuPid('survivor'), qemu);
    assert.equal((await node.vmi('survivor'))?.status?.phase, 'Running');
  });

  test('a log of the database that was cut off by hand is told by `virt-node status`', async () => {
    await node.kubectl('create', 'configmap', 'newest', '--from-literal=a=b');
    assert.equal(await node.end('SIGTERM'), 0);
    const db = path.join(node.paths.apiDir, 'data', 'db');
    const log = path.join(
      db,
      (await readdir(db))
        .filter((name) => name.endsWith('.log'))
        .sort()
        .at(-1) ?? '',
    );
    await truncate(log, (await stat(log)).size - 1);
    await node.start();
    const { stdout } = await node.cli(['status']);
    assert.match(stdout, /PROBLEM +the newest 1 changes of the database were lost: it came back at revision \d+/);
    assert.match(await node.kubectl('get', 'events'), /DatabaseLostWrites/);
  });
});
