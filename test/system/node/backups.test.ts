import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findCondition, type VirtualMachineBackup } from '../../../src/api/index.ts';
import { listOf, memberAt } from '../../../src/base/index.ts';
import { untilLogin } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const patienceMs = 60_000;
/** Of the disk; between is a hole. */
const places = { monday: 0, tuesday: 8 * 2 ** 20, wednesday: 12 * 2 ** 20 } as const;
type Day = keyof typeof places;

describe('backups of a guest that runs, on the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let outside = '';
  before(async () => {
    outside = mkdtempSync(path.join(tmpdir(), 'backups-'));
    node = await NodeProcess.create();
    await node.start();
    const kubevirt = JSON.parse(await node.kubectl('get', 'kubevirt', 'kubevirt', '-n', 'kubevirt', '-o', 'json'));
    const gates = listOf(memberAt(kubevirt, 'spec', 'configuration', 'developerConfiguration', 'featureGates'));
    const configuration = {
      developerConfiguration: { featureGates: [...gates, 'IncrementalBackup'] },
      changedBlockTrackingLabelSelectors: { virtualMachineLabelSelector: { matchLabels: { backup: 'yes' } } },
    };
    const change = JSON.stringify({ spec: { configuration } });
    await node.kubectl('patch', 'kubevirt', 'kubevirt', '-n', 'kubevirt', '--type=merge', '-p', change);
    await claim('data', '16Mi');
    await claim('backups', '128Mi');
    const { spec } = demoVmi('kept');
    const disks = [{ name: 'data', disk: { bus: 'virtio' } }];
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
    const domain = { ...spec.domain, devices: { ...spec.domain.devices, disks } };
    const metadata = { name: 'kept', labels: { backup: 'yes' } };
    await node.apply({
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata },
      spec: { runStrategy: 'Always', template: { spec: { ...spec, domain, volumes } } },
    });
    await untilUp();
    const source = { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'kept' };
    await node.apply(ofBackups('VirtualMachineBackupTracker', 'kept', { source }));
  });
  after(async () => {
    await node?.dispose();
    rmSync(outside, { recursive: true, force: true });
  });

  function ofBackups(kind: string, name: string, spec: object): object {
    return { apiVersion: 'backup.kubevirt.io/v1alpha1', kind, metadata: { name }, spec };
  }
  function claim(name: string, storage: string): Promise<unknown> {
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage } } };
    return node.apply({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name }, spec });
  }
  async function untilUp(): Promise<void> {
    const isTracked = (object: unknown) =>
      memberAt(object, 'status', 'phase') === 'Running' &&
      memberAt(object, 'status', 'changedBlockTracking', 'state') === 'Enabled';
    await node.vmiUntil('kept', isTracked, patienceMs);
    await untilLogin(await node.serial('kept'), AbortSignal.timeout(patienceMs));
    await node.cli(['console', 'kept'], 'root\n');
  }
  async function turn(runStrategy: 'Always' | 'Halted'): Promise<void> {
    await node.kubectl('patch', 'vm', 'kept', '--type=merge', '-p', JSON.stringify({ spec: { runStrategy } }));
    if (runStrategy === 'Always') await untilUp();
    else await node.vmiUntil('kept', (found) => found === undefined, patienceMs);
  }
  const run = (command: string) => node.cli(['console', 'kept'], `\n${command}\n`);
  /** Direct, so that it is on the disk and not in the guest's memory. */
  const writeInGuest = (day: Day) =>
    run(`echo ${day} | dd of=/dev/vda bs=4k conv=sync,notrunc,fsync seek=${places[day] / 4096} && sync`);
  const byTracker = { apiGroup: 'backup.kubevirt.io', kind: 'VirtualMachineBackupTracker', name: 'kept' };
  const order = (name: string, changes: object = {}) =>
    node.apply(ofBackups('VirtualMachineBackup', name, { source: byTracker, pvcName: 'backups', ...changes }));
  const backup = async (name: string) =>
    JSON.parse(await node.kubectl('get', 'vmbackup', name, '-o', 'json')) as VirtualMachineBackup;
  async function directoryOf(claimName: string): Promise<string> {
    const { metadata } = JSON.parse(await node.kubectl('get', 'pvc', claimName, '-o', 'json'));
    return path.join(node.paths.claimsDir, `default_${claimName}_${metadata.uid}`);
  }
  /** Ends when it is complete; gives what its status says and the file of the one disk. */
  async function complete(name: string): Promise<{ type: string | undefined; file: string }> {
    await node.kubectl('wait', `vmbackup/${name}`, '--for=condition=Complete', `--timeout=${patienceMs / 1000}s`);
    const { status } = await backup(name);
    const target = status?.includedVolumes?.[0]?.diskTarget ?? '';
    const found = execFileSync('find', [await directoryOf('backups'), '-name', `${name}-data.qcow2`], {
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
    await writeInGuest('monday');
    await order('monday');
    const { type, file } = await complete('monday');
    assert.equal(type, 'Full');
    files.push(file);
    assert.equal(dayIn(restored(files), 'monday'), 'monday');
    const [header = '', line = ''] = (await node.kubectl('get', 'vmbackup', 'monday')).split('\n');
    assert.match(header, /NAME/);
    assert.match(line, /monday/);
  });

  test('the next is of what has changed since, and both together are the disk', async () => {
    await writeInGuest('tuesday');
    await order('tuesday');
    const { type, file } = await complete('tuesday');
    assert.equal(type, 'Incremental');
    files.push(file);
    assert.ok(statSync(file).blocks * 512 < 2 ** 20, `${statSync(file).blocks * 512} bytes of an incremental backup`);
    const raw = restored(files);
    assert.deepEqual([dayIn(raw, 'monday'), dayIn(raw, 'tuesday')], ['monday', 'tuesday']);
  });

  test('the claim is free again, and the VM says nothing of a backup', async () => {
    await eventually(async () => {
      const vmi = await node.vmi('kept');
      assert.deepEqual(listOf(memberAt(vmi, 'spec', 'utilityVolumes')), []);
      assert.equal(memberAt(vmi, 'status', 'changedBlockTracking', 'backupStatus'), undefined);
    }, patienceMs);
  });

  test('goes on with the checkpoint after the guest was started anew: the launcher is told of it', async () => {
    await turn('Halted');
    await turn('Always');
    await writeInGuest('wednesday');
    await order('wednesday');
    const { type, file } = await complete('wednesday');
    assert.equal(type, 'Incremental');
    files.push(file);
    const raw = restored(files);
    for (const day of ['monday', 'tuesday', 'wednesday'] as const) assert.equal(dayIn(raw, day), day);
    await turn('Halted');
    execFileSync('qemu-img', [
      'compare',
      '-f',
      'raw',
      '-F',
      'raw',
      raw,
      path.join(await directoryOf('data'), 'disk.img'),
    ]);
  });

  test('of a VM that does not run waits and says so, also to `explain`, and is made when it runs', async () => {
    await order('later');
    await eventually(async () => {
      const { status } = await backup('later');
      assert.match(findCondition(status?.conditions, 'Progressing')?.message ?? '', /run/);
    }, patienceMs);
    assert.match((await node.cli(['explain', 'vmbackup/later'])).stdout, /later/);
    await turn('Always');
    assert.equal((await complete('later')).type, 'Incremental');
  });

  test('goes on with a checkpoint of an order that is older than the guest, which the launcher knows', async () => {
    await order('next');
    assert.equal((await complete('next')).type, 'Incremental');
  });

  test('in mode Pull fails, in words', async () => {
    await order('pulled', { mode: 'Pull', tokenSecretRef: 'token' });
    await eventually(async () => {
      const { status } = await backup('pulled');
      const failed = findCondition(status?.conditions, 'Failed');
      assert.equal(failed?.status, 'True');
      assert.match(failed.message ?? '', /Pull/);
    }, patienceMs);
  });
});
