import assert from 'node:assert/strict';
import { test } from 'node:test';
import { replicaSetCases } from '../fixtures/controller/replica-set-cases.ts';
import { replicaSetDefinition } from '../fixtures/controller/set-definitions.ts';
import { startStockCluster } from '../fixtures/controller/stock-cluster.ts';
import { eventually } from '../fixtures/eventually.ts';
import type { KubeApiserver } from '../fixtures/kube-apiserver.ts';

/** Replica sets on a real kube-apiserver with the stock rights of KubeVirt's controller; the kind comes after the controller has begun. */

let server: KubeApiserver;

replicaSetCases(async () => {
  const cluster = await startStockCluster();
  server = cluster.server;
  server.kubectl('delete', 'crd', replicaSetDefinition.metadata.name);
  return { ...cluster, define: async () => cluster.define(replicaSetDefinition) };
});

test('kubectl scales a set up and down', async () => {
  const template = { metadata: { labels: { app: 'kubectl' } }, spec: { domain: { memory: { guest: '64Mi' } } } };
  const set = {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstanceReplicaSet', metadata: { name: 'kubectl' } },
    spec: { replicas: 1, selector: { matchLabels: { app: 'kubectl' } }, template },
  };
  server.kubectlStdin(JSON.stringify(set), 'create', '-n', 'default', '-f', '-');
  const status = () =>
    server.kubectl(
      'get',
      '-n',
      'default',
      'virtualmachineinstancereplicaset/kubectl',
      '-o',
      'jsonpath={.status.replicas}',
    );
  await eventually(() => assert.equal(status(), '1'));
  for (const replicas of ['3', '0']) {
    server.kubectl('scale', '-n', 'default', 'virtualmachineinstancereplicaset/kubectl', `--replicas=${replicas}`);
    await eventually(() => assert.equal(status(), replicas), 30_000);
  }
});

test('a quota that is used up is said until it is not, and costs no request per missing VMI', async () => {
  const hard = (count: number) => ({ 'count/virtualmachineinstances.kubevirt.io': String(count) });
  server.kubectl('create', 'namespace', 'quota');
  const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'few' }, spec: { hard: hard(2) } };
  server.kubectlStdin(JSON.stringify(quota), 'create', '-n', 'quota', '-f', '-');
  // What the quota controller of a cluster writes.
  const allow = (count: number, used: number) => {
    const patch = JSON.stringify({ spec: { hard: hard(count) }, status: { hard: hard(count), used: hard(used) } });
    for (const below of [[], ['--subresource=status']])
      server.kubectl('patch', 'quota', 'few', '-n', 'quota', '--type=merge', ...below, '-p', patch);
  };
  allow(2, 0);
  const template = { metadata: { labels: { app: 'few' } }, spec: { domain: { memory: { guest: '64Mi' } } } };
  const set = {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstanceReplicaSet', metadata: { name: 'few' } },
    spec: { replicas: 50, selector: { matchLabels: { app: 'few' } }, template },
  };
  server.kubectlStdin(JSON.stringify(set), 'create', '-n', 'quota', '-f', '-');
  const read = (path: string) =>
    server.kubectl('get', '-n', 'quota', 'virtualmachineinstancereplicaset/few', '-o', `jsonpath=${path}`);
  const failure = '{.status.conditions[?(@.type=="ReplicaFailure")].reason}';
  await eventually(() => assert.deepEqual([read('{.status.replicas}'), read(failure)], ['2', 'FailedCreate']), 30_000);
  allow(100, 2);
  await eventually(() => assert.deepEqual([read('{.status.replicas}'), read(failure)], ['50', '']), 60_000);
});
