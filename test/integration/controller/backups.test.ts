import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  findCondition,
  type KubeObject,
  type Pod,
  resources,
  type VirtualMachineBackup,
  type VirtualMachineBackupTracker,
  type VirtualMachineExport,
  type VirtualMachineInstance,
} from '../../../src/api/index.ts';
import type { AgentReply } from '../../../src/apiserver/index.ts';
import { goQuote, isRecord, memberAt } from '../../../src/base/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';
import { eventually } from '../../fixtures/eventually.ts';

const namespace = 'default';
const backups = resources.virtualMachineBackups;
const trackers = resources.virtualMachineBackupTrackers;
const vmis = resources.virtualMachineInstances;
const ofVm = (name: string) => ({ apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name });
const ofTracker = (name: string) => ({ apiGroup: 'backup.kubevirt.io', kind: trackers.kind, name });
type Order = Readonly<Record<string, unknown>>;

describe('backups; kubelet, agent and launcher are played', () => {
  const orders: { readonly to: string; readonly order: Order }[] = [];
  const fine: AgentReply = { httpStatus: 202, contentType: 'text/plain', body: Buffer.from('') };
  const says = (httpStatus: number, text: string): AgentReply => ({ ...fine, httpStatus, body: Buffer.from(text) });
  const refuses = (words: string) => says(400, `server error. command Backup failed: ${goQuote(words)}`);
  let answer: (to: string, order: Order) => AgentReply = () => fine;
  let cluster: Cluster;

  let authorities: Readonly<Record<'servers' | 'launchers', TestAuthority>>;
  before(async () => {
    authorities = {
      servers: await TestAuthority.make('export.kubevirt.io'),
      launchers: await TestAuthority.make('backup.kubevirt.io'),
    };
    const unused = () => Promise.reject(new Error('not asked here'));
    const call = async (_method: string, path: string, body: string) => {
      const to = path.split('/').slice(-2).join('/');
      const order: Order = JSON.parse(body);
      orders.push({ to, order });
      return answer(to, order);
    };
    const vmSubresources = { call, upgrade: () => undefined, forward: () => undefined, power: unused };
    cluster = new Cluster(await embeddedApi({ vmSubresources }));
    for (const [name, { dir, pair }] of Object.entries(authorities)) {
      await writeFile(path.join(dir, 'tls.crt'), pair.cert);
      if (name !== 'launchers') await writeFile(path.join(dir, 'tls.key'), pair.key);
    }
    cluster.exportCaDir = authorities.servers.dir;
    cluster.backupCaDir = authorities.launchers.dir;
    const developerConfiguration = { featureGates: ['IncrementalBackup'] };
    const kubevirt = {
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt', namespace: 'kubevirt' } },
      spec: { configuration: { developerConfiguration } },
    };
    const made = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kubevirt' } };
    await cluster.client.create(resources.namespaces, made).catch(() => undefined);
    const { metadata } = await cluster.client.create<KubeObject>(resources.kubevirts, kubevirt as KubeObject);
    const status = { phase: 'Deployed' };
    await cluster.client.patch(resources.kubevirts, metadata, { status }, 'merge', { subresource: 'status' });
    await cluster.addNode('node1', { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': 'node1' });
    await cluster.startController();
    for (const name of ['disk', 'target']) await createClaim(name);
    await createClaim('device', 'Block');
    await startVm('box', 'disk');
  });
  after(async () => {
    await cluster?.stop();
    for (const authority of Object.values(authorities ?? {})) await authority.remove();
  });

  async function createClaim(name: string, volumeMode = 'Filesystem'): Promise<void> {
    const type = resources.persistentVolumeClaims;
    const spec = { accessModes: ['ReadWriteOnce'], volumeMode, resources: { requests: { storage: '1Gi' } } };
    const claim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name, namespace }, spec };
    await cluster.client.create(type, claim as KubeObject);
    const status = { phase: 'Bound', capacity: { storage: '1Gi' } };
    await cluster.client.patch(type, claim.metadata, { status }, 'merge', { subresource: 'status' });
  }

  async function startVm(name: string, claimName: string): Promise<void> {
    const devices = { disks: [{ name: 'root', disk: {} }] };
    const volumes = [{ name: 'root', persistentVolumeClaim: { claimName } }];
    const template = { spec: { domain: { devices, memory: { guest: '64Mi' } }, volumes } };
    await cluster.client.create(resources.virtualMachines, {
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name, namespace } },
      spec: { runStrategy: 'Always', template },
    } as KubeObject);
    await runGuest(name);
  }

  async function runGuest(name: string): Promise<void> {
    const { metadata } = await cluster.untilVmi(
      name,
      'there',
      ({ status }) => !status?.phase?.match(/Failed|Succeeded/),
    );
    const pod = await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName === 'node1');
    await cluster.runPod(pod);
    await cluster.untilPhase(name, 'Scheduled');
    await tell(name, { phase: 'Running', selinuxContext: 'none', changedBlockTracking: { state: 'Enabled' } });
    // Times are of whole seconds: only a backup of a later one is known to be younger than its guest.
    await eventually(() => assert.ok(Date.now() >= Date.parse(String(metadata.creationTimestamp)) + 1_000), 5_000);
  }

  /** What the agent writes. */
  const tell = (vmi: string, status: object) =>
    cluster.client.patch(vmis, { namespace, name: vmi }, { status }, 'merge');
  const tellBackup = (vmi: string, backupStatus: object) => tell(vmi, { changedBlockTracking: { backupStatus } });
  const begun = (checkpointName: string) => ({ checkpointName, volumes: [{ volumeName: 'root', diskTarget: 'vda' }] });

  function create(name: string, spec: object): Promise<VirtualMachineBackup> {
    const object = { apiVersion: 'backup.kubevirt.io/v1alpha1', kind: backups.kind, metadata: { name, namespace } };
    return cluster.client.create<VirtualMachineBackup>(backups, {
      ...object,
      spec: { source: ofVm('box'), pvcName: 'target', ...spec },
    } as VirtualMachineBackup);
  }
  function createTracker(name: string, vm: string): Promise<unknown> {
    const object = { apiVersion: 'backup.kubevirt.io/v1alpha1', kind: trackers.kind, metadata: { name, namespace } };
    return cluster.client.create(trackers, { ...object, spec: { source: ofVm(vm) } } as KubeObject);
  }
  const until = (name: string, what: string, holds: (backup: VirtualMachineBackup) => boolean) =>
    cluster.until<VirtualMachineBackup>(backups, name, what, holds);
  const untilSays = (name: string, type: string, words: RegExp) =>
    until(name, `${type} ${words}`, ({ status }) => {
      const found = findCondition(status?.conditions, type);
      return words.test(`${found?.status} ${found?.reason}: ${found?.message}`);
    });
  const remove = async (name: string) => {
    await cluster.client.delete(backups, { namespace, name });
    await cluster.untilGone(backups, name);
  };

  const entryOf = ({ status }: VirtualMachineInstance, name: string) =>
    status?.volumeStatus?.find((entry) => entry.name === name);
  async function writeEntry(vmi: string, name: string, phase: string): Promise<void> {
    const { status } = await cluster.untilVmi(vmi, `entry ${name}`, (found) => entryOf(found, name) !== undefined);
    const volumeStatus = (status?.volumeStatus ?? []).map((each) => (each.name === name ? { ...each, phase } : each));
    await tell(vmi, { volumeStatus });
  }
  /** The kubelet's and the agent's part of plugging the claim of a backup in. */
  async function plug(backup: string, vmi = 'box'): Promise<void> {
    const volume = `${backup}-backup-target-pvc`;
    await eventually(async () => {
      const options = { labelSelector: 'kubevirt.io=hotplug-disk' };
      const pods = (await cluster.client.list<Pod>(resources.pods, options)).items;
      const pod = pods.find(
        ({ spec }) => spec.nodeName === 'node1' && spec.volumes?.some(({ name }) => name === volume),
      );
      assert.ok(pod);
      const container = { name: 'hotplug-disk', ready: true, restartCount: 0, image: 'x', imageID: 'x' };
      await cluster.setPodStatus(pod, { phase: 'Running', containerStatuses: [container] });
    }, 15_000);
    await cluster.untilVmi(vmi, 'attached', (found) => entryOf(found, volume)?.phase === 'AttachedToNode');
    await writeEntry(vmi, volume, 'MountedToPod');
  }
  /** The same of unplugging it. */
  async function unplug(backup: string, vmi = 'box'): Promise<void> {
    const volume = `${backup}-backup-target-pvc`;
    await cluster.untilVmi(vmi, 'unplugged', ({ spec }) => spec.utilityVolumes === undefined);
    await writeEntry(vmi, volume, 'UnMountedFromPod');
    await cluster.untilVmi(vmi, 'entry gone', (found) => entryOf(found, volume) === undefined);
  }
  async function ordered(cmd: string, backupName: string): Promise<Order> {
    let found: Order | undefined;
    await eventually(async () => {
      found = orders.findLast(({ order }) => order.cmd === cmd && order.backupName === backupName)?.order;
      assert.ok(found, `${cmd} ${backupName}`);
    }, 15_000);
    return found ?? assert.fail();
  }
  const isFree = (vmi: VirtualMachineInstance) =>
    !isRecord(memberAt(vmi.status, 'changedBlockTracking', 'backupStatus'));
  async function finish(name: string, vmi = 'box', end: object = {}): Promise<void> {
    await tellBackup(vmi, { ...begun(`${name}-c`), completed: true, ...end });
    await unplug(name, vmi);
    await cluster.untilVmi(vmi, 'free', isFree);
  }

  test('a full one: claim plugged in, launcher asked, progress and end told, claim free before that', async () => {
    const { metadata } = await create('full', { skipQuiesce: true });
    await untilSays('full', 'Progressing', /^True Initializing: claim default\/target is being plugged in/);
    await plug('full');
    const order = await ordered('Start', 'full');
    assert.deepEqual(order, {
      ...{ backupName: 'full', cmd: 'Start', mode: 'Push', skipQuiesce: true },
      backupStartTime: metadata.creationTimestamp,
      targetPath: '/var/run/kubevirt/hotplug-disks/full-backup-target-pvc',
    });
    const { status } = await untilSays('full', 'Progressing', /^True Initiated/);
    assert.equal(status?.type, 'Full');
    await tellBackup('box', { ...begun('full-c'), quiesceStatus: 'Skipped' });
    await untilSays('full', 'Quiesced', /^False QuiesceSkipped/);
    await tellBackup('box', { completed: true });
    const plugged = await cluster.untilVmi('box', 'unplugged', ({ spec }) => spec.utilityVolumes === undefined);
    assert.ok(entryOf(plugged, 'full-backup-target-pvc'));
    const early = await cluster.find<VirtualMachineBackup>(backups, 'full');
    assert.equal(findCondition(early?.status?.conditions, 'Complete'), undefined, 'the claim is still held');
    await unplug('full');
    const done = await untilSays('full', 'Complete', /^True Completed/);
    assert.deepEqual(
      [done.status?.checkpointName, done.status?.includedVolumes],
      ['full-c', [{ volumeName: 'root', diskTarget: 'vda' }]],
    );
    await cluster.untilVmi('box', 'free', isFree);
    await cluster.untilEvent('full', 'VirtualMachineBackupCompletedSuccessfully');
    await remove('full');
  });

  test('by a tracker: the first is full, the second what has changed; after a restart the launcher is told again', async () => {
    await createTracker('daily', 'box');
    await create('first', { source: ofTracker('daily') });
    await plug('first');
    assert.equal((await ordered('Start', 'first')).incremental, undefined);
    await finish('first');
    const latest = (name: string) =>
      cluster.until<VirtualMachineBackupTracker>(trackers, 'daily', name, ({ status }) => {
        return status?.latestCheckpoint?.name === name;
      });
    await latest('first-c');
    await create('second', { source: ofTracker('daily') });
    await plug('second');
    assert.equal((await ordered('Start', 'second')).incremental, 'first-c');
    assert.ok(!orders.some(({ to }) => to === 'box/redefine-checkpoint'), 'the guest knows it still');
    await finish('second');
    await latest('second-c');
    assert.equal(
      (await until('second', 'type', ({ status }) => status?.type !== undefined)).status?.type,
      'Incremental',
    );
    await create('forced', { source: ofTracker('daily'), forceFullBackup: true });
    await plug('forced');
    assert.equal((await ordered('Start', 'forced')).incremental, undefined);
    await finish('forced');

    const flag = { status: { checkpointRedefinitionRequired: true } };
    const ref = { namespace, name: 'daily' };
    await cluster.client.patch(trackers, ref, flag, 'merge', { subresource: 'status' });
    await create('third', { source: ofTracker('daily') });
    await plug('third');
    assert.equal((await ordered('Start', 'third')).incremental, 'forced-c');
    assert.equal(orders.find(({ to }) => to === 'box/redefine-checkpoint')?.order.name, 'forced-c');
    await finish('third');
    await cluster.client.patch(trackers, ref, flag, 'merge', { subresource: 'status' });
    answer = (to) => (to.endsWith('redefine-checkpoint') ? says(422, 'no disk knows it') : fine);
    await create('fourth', { source: ofTracker('daily') });
    await plug('fourth');
    assert.equal((await ordered('Start', 'fourth')).incremental, undefined, 'a full one');
    answer = () => fine;
    await finish('fourth');
    await cluster.untilEvent('daily', 'CheckpointRedefinitionFailed');
    await latest('fourth-c');
  });

  test('two at once, one by a tracker: the second waits, in words, and begins after the first', async () => {
    await create('one', {});
    await assert.rejects(create('again', {}), /VirtualMachineBackup "one" in progress for source/);
    await plug('one');
    await ordered('Start', 'one');
    await create('two', { source: ofTracker('daily') });
    await untilSays('two', 'Progressing', /backup one of VM default\/box is under way: this one begins after it$/);
    await finish('one');
    await plug('two');
    await ordered('Start', 'two');
    await finish('two', 'box', { failed: true, backupMsg: 'the claim is too small' });
    await untilSays('two', 'Failed', /^True Failed: Backup has failed: the claim is too small$/);
    const tracker = await cluster.find<VirtualMachineBackupTracker>(trackers, 'daily');
    assert.equal(tracker?.status?.latestCheckpoint?.name, 'fourth-c', 'a failure leaves it as it was');
  });

  test('a tracker that is deleted meanwhile: the backup ends as it would have, and neither claim nor guest is kept', async () => {
    await createTracker('gone', 'box');
    await create('orphan', { source: ofTracker('gone') });
    await plug('orphan');
    await ordered('Start', 'orphan');
    await tellBackup('box', begun('orphan-c'));
    await cluster.client.delete(trackers, { namespace, name: 'gone' });
    await cluster.untilGone(trackers, 'gone');
    await createTracker('gone', 'another');
    await finish('orphan', 'box', { completed: true });
    await untilSays('orphan', 'Complete', /^True Completed: /);
    await cluster.untilVmi('box', 'free', isFree);
    const tracker = await cluster.find<VirtualMachineBackupTracker>(trackers, 'gone');
    assert.equal(tracker?.status?.latestCheckpoint, undefined, 'of another VM: it knows no such checkpoint');
  });

  test('what its launcher refuses has failed with its words; the claim is free, and so is the guest', async () => {
    const words = 'another claim "is" needed';
    answer = () => refuses(words);
    await create('refused', {});
    await plug('refused');
    await untilSays('refused', 'Failed', /^True Failed: Backup has failed: another claim "is" needed$/);
    answer = () => fine;
    await unplug('refused');
    await cluster.untilVmi('box', 'free', isFree);
    await cluster.untilEvent('refused', 'VirtualMachineBackupFailed');
  });

  test('a start of which nobody knows what became of it is ordered again', async () => {
    answer = () => says(400, 'unknown error encountered sending command Backup: rpc error: code = DeadlineExceeded');
    await create('slow', {});
    await plug('slow');
    await untilSays('slow', 'Progressing', /^True Initializing: unknown error encountered sending command/);
    answer = () => fine;
    await untilSays('slow', 'Progressing', /^True Initiated: /);
    await finish('slow');
    await untilSays('slow', 'Complete', /^True Completed: /);
    await cluster.untilVmi('box', 'free', isFree);
  });

  test('deleted while its launcher cannot abort it: mark and claim stay until it can, or nothing is under way', async () => {
    answer = () =>
      refuses('backup lost: libvirt does not say whether it begins: the status tells, or the same order again');
    await create('lost', {});
    await plug('lost');
    await untilSays('lost', 'Progressing', /^True Initializing: backup lost: libvirt does not say/);
    answer = () => refuses('backup lost cannot be aborted at this moment: try again');
    await cluster.client.delete(backups, { namespace, name: 'lost' });
    await untilSays('lost', 'Progressing', /^True Aborting: backup lost cannot be aborted at this moment: try again$/);
    const vmi = await cluster.find<VirtualMachineInstance>(vmis, 'box');
    assert.equal(memberAt(vmi?.status, 'changedBlockTracking', 'backupStatus', 'backupName'), 'lost');
    assert.ok(vmi?.spec.utilityVolumes, 'the claim is plugged in');
    answer = () => refuses('backup lost is not under way: there is nothing to abort');
    await cluster.untilVmi('box', 'free', isFree);
    await unplug('lost');
    await cluster.untilGone(backups, 'lost');
    answer = () => fine;
  });

  test('deleted while disks are copied: its launcher is asked to end it, and it goes when that has ended', async () => {
    await create('unwanted', {});
    await plug('unwanted');
    await ordered('Start', 'unwanted');
    await tellBackup('box', begun('unwanted-c'));
    await until('unwanted', 'volumes', ({ status }) => status?.includedVolumes !== undefined);
    await cluster.client.delete(backups, { namespace, name: 'unwanted' });
    const { backupStartTime } = await ordered('Abort', 'unwanted');
    assert.ok(backupStartTime);
    await untilSays('unwanted', 'Progressing', /^True Aborting/);
    await finish('unwanted', 'box', { failed: true, backupMsg: 'it was aborted' });
    await cluster.untilGone(backups, 'unwanted');
  });

  test('deleted before it has begun: the claim is unplugged, and it goes', async () => {
    await create('early', {});
    await cluster.untilVmi('box', 'asked', ({ spec }) => spec.utilityVolumes !== undefined);
    await cluster.client.delete(backups, { namespace, name: 'early' });
    await cluster.untilGone(backups, 'early');
    await cluster.untilVmi('box', 'unplugged', ({ spec }) => spec.utilityVolumes === undefined);
    await cluster.untilVmi('box', 'entry gone', (vmi) => entryOf(vmi, 'early-backup-target-pvc') === undefined);
  });

  test('a controller that is ended between mark and start begins it once it is back; one ended later sees the end', async () => {
    answer = () => says(503, 'the agent is leaving');
    await create('kept', {});
    await plug('kept');
    await ordered('Start', 'kept');
    await untilSays('kept', 'Progressing', /the agent is leaving/);
    await cluster.stopController();
    answer = () => fine;
    orders.length = 0;
    await cluster.startController();
    await ordered('Start', 'kept');
    await untilSays('kept', 'Progressing', /^True Initiated/);
    await cluster.stopController();
    await tellBackup('box', { ...begun('kept-c'), completed: true });
    await cluster.startController();
    await unplug('kept');
    await untilSays('kept', 'Complete', /^True Completed/);
    assert.equal(orders.filter(({ order }) => order.cmd === 'Start').length, 1);
  });

  const exports = resources.virtualMachineExports;
  const pull = { mode: 'Pull', tokenSecretRef: 'token', source: ofTracker('daily'), forceFullBackup: true };

  test('a pull does not begin while nobody can vouch for its launcher, and begins when that is there', async () => {
    await create('pulled', pull);
    await plug('pulled');
    await untilSays('pulled', 'Progressing', /backups? to its exporter.*mount the secret kubevirt-backup-ca there/);
    assert.ok(!orders.some(({ order }) => order.backupName === 'pulled'), 'its guest was not asked for anything');
    await cluster.untilVmi('box', 'free', isFree);
    await writeFile(path.join(authorities.launchers.dir, 'tls.key'), authorities.launchers.pair.key);
    assert.equal((await ordered('Start', 'pulled')).mode, 'Pull');
  });

  test('a pull: an export of its name, the launcher asked to connect to it, where it is read, and its end', async () => {
    const { metadata } = await until('pulled', 'begun', ({ status }) => status?.type === 'Full');
    await tellBackup('box', begun('pulled-c'));
    const made = await cluster.until<VirtualMachineExport>(exports, 'pulled', 'has a service', ({ status }) => {
      return status?.serviceName !== undefined;
    });
    assert.equal(made.metadata.ownerReferences?.[0]?.uid, metadata.uid);
    assert.equal(made.spec.tokenSecretRef, 'token');
    assert.match(made.spec.ttlDuration ?? '', /^7\d\d\ds$/);
    const order = await ordered('Export', 'pulled');
    assert.equal(order.exportServerAddr, `${made.status?.serviceName}.default.svc`);
    assert.equal(order.exportServerName, `${order.exportServerAddr}.cluster.local`);
    assert.equal(order.caCert, authorities.servers.pair.cert.trim());
    const shown = new X509Certificate(String(order.backupCert));
    assert.equal(shown.subject, `CN=kubevirt.io:system:client:${metadata.uid}`);
    assert.ok(shown.verify(new X509Certificate(authorities.launchers.pair.cert).publicKey));
    assert.ok(shown.checkPrivateKey(createPrivateKey(String(order.backupKey))));
    let pod: Pod | undefined;
    await eventually(async () => {
      pod = await cluster.find<Pod>(resources.pods, 'virt-export-pulled');
      assert.ok(pod);
    }, 15_000);
    const env = Object.fromEntries((pod?.spec.containers[0]?.env ?? []).map(({ name, value }) => [name, value]));
    assert.deepEqual(
      ['BACKUP0_BACKUP_PATH', 'BACKUP0_MAP_URI', 'BACKUP_UID', 'BACKUP_TYPE', 'BACKUP_CHECKPOINT'].map(
        (name) => env[name],
      ),
      ['root', '/exports/root/map', metadata.uid, 'Full', 'pulled-c'],
    );
    assert.equal(env.BACKUP_CACERT, authorities.launchers.pair.cert.trim());
    await untilSays('pulled', 'Progressing', /^True ExportInitiated: /);
    if (pod) await cluster.setPodStatus(pod, { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] });
    await untilSays('pulled', 'Progressing', /^True ExportReady: .* delete it when all is read/);
    const { status } = await until('pulled', 'endpoints', (each) => each.status?.endpointCert !== undefined);
    const at = `https://${order.exportServerAddr}/exports/root`;
    assert.deepEqual(status?.includedVolumes, [
      { volumeName: 'root', diskTarget: 'vda', dataEndpoint: `${at}/data`, mapEndpoint: `${at}/map` },
    ]);
    assert.equal(orders.filter(({ order: { cmd } }) => cmd === 'Export').length, 1, 'asked once');
    await cluster.client.delete(backups, { namespace, name: 'pulled' });
    await ordered('Abort', 'pulled');
    await finish('pulled');
    await cluster.untilGone(exports, 'pulled');
    await cluster.untilGone(backups, 'pulled');
    await cluster.until<VirtualMachineBackupTracker>(trackers, 'daily', 'pulled-c', ({ status: known }) => {
      return known?.latestCheckpoint?.name === 'pulled-c';
    });
  });

  test('a pull whose time is over before anybody could read it has failed, and its tracker keeps its checkpoint', async () => {
    await create('short', { ...pull, ttlDuration: '6s' });
    await plug('short');
    await ordered('Start', 'short');
    await tellBackup('box', begun('short-c'));
    await ordered('Abort', 'short');
    await untilSays('short', 'Progressing', /^True Aborting: .*\(spec\.ttlDuration: 6s\) is over/);
    await finish('short');
    await untilSays('short', 'Failed', /^True Failed: .* nobody could read it: see that the secret token is there/);
    await cluster.untilGone(exports, 'short');
    const tracker = await cluster.find<VirtualMachineBackupTracker>(trackers, 'daily');
    assert.equal(tracker?.status?.latestCheckpoint?.name, 'pulled-c');
    await create('never', { ...pull, ttlDuration: '1s', pvcName: 'missing' });
    await untilSays('never', 'Failed', /was over before it could begin/);
  });

  test('what is missing is awaited, what can never be is refused; both in words', async () => {
    await create('nowhere', { source: ofTracker('none') });
    await untilSays('nowhere', 'Progressing', /^True Initializing: BackupTracker default\/none does not exist$/);
    await create('homeless', { pvcName: 'missing' });
    await untilSays('homeless', 'Progressing', /claim default\/missing does not exist/);
    await remove('homeless');
    await create('blocky', { pvcName: 'device' });
    await untilSays('blocky', 'Failed', /claim default\/device is a block device/);
    await create('itself', { pvcName: 'disk' });
    await untilSays('itself', 'Failed', /claim default\/disk holds disk root of the VM itself/);
    await create('absent', { source: ofVm('nobody') });
    await untilSays('absent', 'Progressing', /VM default\/nobody does not exist/);
    await tell('box', { changedBlockTracking: { state: 'Initializing' } });
    await create('untracked', {});
    await untilSays('untracked', 'Progressing', /has no ChangedBlockTracking \(Initializing\)/);
    await remove('untracked');
    await tell('box', { changedBlockTracking: { state: 'Enabled' } });
  });

  test('a guest that ends meanwhile fails its backup, and a VM that does not run keeps one waiting', async () => {
    await create('cut', {});
    await plug('cut');
    await ordered('Start', 'cut');
    await untilSays('cut', 'Progressing', /^True Initiated/);
    await cluster.client.patch(
      resources.virtualMachines,
      { namespace, name: 'box' },
      { spec: { runStrategy: 'Halted' } },
      'merge',
    );
    await tell('box', { phase: 'Succeeded' });
    await untilSays('cut', 'Failed', /^True Source(?:Unhealthy|Lost): /);
    await create('asleep', {});
    await untilSays('asleep', 'Progressing', /VM default\/box is not running: start it/);
  });
});
