import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadKubeAccess } from '../../src/kube/index.ts';
import { replicaSetCases } from '../fixtures/controller/replica-set-cases.ts';
import { replicaSetDefinition } from '../fixtures/controller/set-definitions.ts';
import { stockController, stockRole } from '../fixtures/controller/stock-role.ts';
import { eventually } from '../fixtures/eventually.ts';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** Replica sets on a real kube-apiserver with the stock rights of KubeVirt's controller; the kind comes after the controller has begun. */

let server: KubeApiserver;

replicaSetCases(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  server = await startKubeApiserver(assets, {
    users: { 'controller-token': { name: stockController, groups: ['system:serviceaccounts'] } },
  });
  server.kubectlStdin(stockRole, 'create', '-f', '-');
  const kubeconfig = server.kubeconfigFor('controller-token');
  return {
    access: await loadKubeAccess({ kubeconfig: server.adminKubeconfig }),
    controllerAccess: await loadKubeAccess({ kubeconfig }),
    lacksGarbageCollector: true,
    define: async () => {
      server.kubectlStdin(JSON.stringify(replicaSetDefinition), 'create', '-f', '-');
      server.kubectl('wait', '--for=condition=Established', 'crd', replicaSetDefinition.metadata.name, '--timeout=30s');
    },
    stop: () => server.stop(),
  };
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
