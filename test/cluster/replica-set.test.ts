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
