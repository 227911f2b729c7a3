import assert from 'node:assert/strict';
import { test } from 'node:test';
import { poolCases } from '../fixtures/controller/pool-cases.ts';
import { poolDefinition } from '../fixtures/controller/set-definitions.ts';
import { startStockCluster } from '../fixtures/controller/stock-cluster.ts';
import { eventually } from '../fixtures/eventually.ts';
import type { KubeApiserver } from '../fixtures/kube-apiserver.ts';

/** Pools on a real kube-apiserver with the stock rights of KubeVirt's controller; the kind comes after the controller has begun. */

let server: KubeApiserver;

poolCases(async () => {
  const cluster = await startStockCluster();
  server = cluster.server;
  server.kubectl('delete', 'crd', poolDefinition.metadata.name);
  return { ...cluster, define: async () => cluster.define(poolDefinition) };
});

test('kubectl scales a pool up and down', async () => {
  const labels = { pool: 'kubectl' };
  const template = { spec: { domain: { memory: { guest: '64Mi' } } } };
  const pool = {
    ...{ apiVersion: 'pool.kubevirt.io/v1beta1', kind: 'VirtualMachinePool', metadata: { name: 'kubectl' } },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      virtualMachineTemplate: { metadata: { labels }, spec: { runStrategy: 'Halted', template } },
    },
  };
  server.kubectlStdin(JSON.stringify(pool), 'create', '-n', 'default', '-f', '-');
  const name = 'virtualmachinepool/kubectl';
  const counted = () => server.kubectl('get', '-n', 'default', name, '-o', 'jsonpath={.status.replicas}');
  await eventually(() => assert.equal(counted(), '1'));
  for (const replicas of ['3', '0']) {
    server.kubectl('scale', '-n', 'default', name, `--replicas=${replicas}`);
    await eventually(() => assert.equal(counted(), replicas), 30_000);
  }
});
