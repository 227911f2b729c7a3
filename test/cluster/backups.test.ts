import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findCondition, type KubeObject, resources, type VirtualMachineBackup } from '../../src/api/index.ts';
import { Cluster } from '../fixtures/controller/cluster.ts';
import { startStockCluster } from '../fixtures/controller/stock-cluster.ts';
import type { KubeApiserver } from '../fixtures/kube-apiserver.ts';

/** Backups on a real kube-apiserver with our CRDs and the stock rights of KubeVirt's controller. No virt-api is there: no launcher is asked. */

const namespace = 'default';
const backups = resources.virtualMachineBackups;
const source = { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'box' };
let cluster: Cluster;
let server: KubeApiserver;

before(async () => {
  const stock = await startStockCluster();
  server = stock.server;
  cluster = new Cluster(stock);
  await cluster.addNode('node1', { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': 'node1' });
  await cluster.startController();
});
after(() => cluster?.stop());

const object = (kind: string, name: string, spec: object) =>
  ({ apiVersion: 'backup.kubevirt.io/v1alpha1', kind, metadata: { name, namespace }, spec }) as KubeObject;
const create = (name: string, spec: object = {}) =>
  cluster.client.create(backups, object(backups.kind, name, { source, pvcName: 'target', ...spec }));
const untilSays = (name: string, type: string, words: RegExp) =>
  cluster.until<VirtualMachineBackup>(backups, name, String(words), ({ status }) => {
    const found = findCondition(status?.conditions, type);
    return words.test(`${found?.status} ${found?.reason}: ${found?.message}`);
  });

test('the definitions refuse what upstream’s refuse, in its words, and let no spec be changed', async () => {
  const tracker = { ...source, apiGroup: 'backup.kubevirt.io', kind: 'VirtualMachineBackupTracker' };
  const wrong: readonly (readonly [object, RegExp])[] = [
    [{ pvcName: '' }, /pvcName is required/],
    [{ mode: 'Pull' }, /tokenSecretRef is required when mode is Pull/],
    [{ mode: 'Throw' }, /Unsupported value: "Throw"/],
    [{ source: { ...source, apiGroup: 'apps' } }, /apiGroup must be kubevirt\.io or backup\.kubevirt\.io/],
    [{ source: { ...tracker, apiGroup: 'kubevirt.io' } }, /kind must be VirtualMachine for kubevirt\.io/],
    [{ source: { ...source, name: '' } }, /name is required/],
  ];
  for (const [spec, words] of wrong) await assert.rejects(create('wrong', spec), words);
  const type = resources.virtualMachineBackupTrackers;
  await assert.rejects(cluster.client.create(type, object(type.kind, 'wrong', { source: tracker })), /kubevirt\.io/);
  await cluster.client.create(type, object(type.kind, 'daily', { source }));
  const change = { spec: { source: { ...source, name: 'other' } } };
  const ref = { namespace, name: 'daily' };
  await assert.rejects(cluster.client.patch(type, ref, change, 'merge'), /spec is immutable after creation/);
  assert.match(
    server.kubectl('get', '-n', namespace, 'vmbackuptracker', '--no-headers'),
    /^daily +VirtualMachine +box/,
  );
});

test('with the stock rights: what it waits for is told in its status', async () => {
  await create('one');
  await untilSays('one', 'Progressing', /^True Initializing: VM default\/box does not exist$/);
  await cluster.client.create(resources.virtualMachines, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'box', namespace } },
    spec: { runStrategy: 'Halted', template: { spec: { domain: { devices: {}, memory: { guest: '64Mi' } } } } },
  } as KubeObject);
  await untilSays('one', 'Progressing', /VM default\/box is not running: start it$/);
});
