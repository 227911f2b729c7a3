import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { parse } from 'yaml';
import { upstreamSchema } from '../../scripts/upstream-crds.mjs';
import {
  findCondition,
  type KubeObject,
  type ResourceType,
  resources,
  type VirtualMachine,
} from '../../src/api/index.ts';
import { silentLogger } from '../../src/base/index.ts';
import { Controller } from '../../src/controller/index.ts';
import { KubeClient, loadKubeAccess } from '../../src/kube/index.ts';
import { Cluster } from '../fixtures/controller/cluster.ts';
import { instancetypeCases } from '../fixtures/controller/instancetype-cases.ts';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';
import { upstreamControllerRules } from '../fixtures/upstream-controller-role.ts';

/**
 * Instance types on a real kube-apiserver, by a controller with the rights of upstream's. The cluster loses the kinds, and learns them again while that runs, with
 * upstream's schemas where those can be had.
 */

const definitions: ResourceType = {
  ...{ group: 'apiextensions.k8s.io', version: 'v1', resource: 'customresourcedefinitions' },
  ...{ kind: 'CustomResourceDefinition', namespaced: false },
};
const kinds = [
  resources.virtualMachineInstancetypes,
  resources.virtualMachineClusterInstancetypes,
  resources.virtualMachinePreferences,
  resources.virtualMachineClusterPreferences,
];

interface Definition extends KubeObject {
  spec: { versions: { schema: { openAPIV3Schema: unknown } }[] };
}

/** As it is installed, but for the schema. */
function definitionOf({ resource, kind }: ResourceType): Definition {
  const definition: Definition = parse(readFileSync(`daemonset/prerequisites/crds/${resource}.yaml`, 'utf8'));
  const openAPIV3Schema = upstreamSchema(kind.toLowerCase());
  if (openAPIV3Schema) for (const { schema } of definition.spec.versions) schema.openAPIV3Schema = openAPIV3Schema;
  return definition;
}

/** The scheduler of the standalone node is part of the controller here. */
const schedulerRule = { apiGroups: [''], resources: ['pods/binding'], verbs: ['create'] };
const token = 'controller-token';
const user = { name: 'virt-controller', groups: [] };
const rbac = 'rbac.authorization.k8s.io';
let server: KubeApiserver;
let cluster: Cluster;
let client: KubeClient;
let controller: Controller;

before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  server = await startKubeApiserver(assets, { users: { [token]: user } });
  server.kubectl('delete', 'crd', ...kinds.map(({ group, resource }) => `${resource}.${group}`));
  const ofAdmin = await loadKubeAccess({ kubeconfig: server.adminKubeconfig });
  cluster = new Cluster({ access: ofAdmin, stop: () => server.stop() });
  await cluster.addNode();
  const metadata = { name: 'virt-controller-as-upstream' };
  const roleRef = { apiGroup: rbac, kind: 'ClusterRole', name: metadata.name };
  const subjects = [{ apiGroup: rbac, kind: 'User', name: user.name }];
  const apiVersion = `${rbac}/v1`;
  for (const object of [
    { apiVersion, kind: 'ClusterRole', metadata, rules: [...upstreamControllerRules, schedulerRule] },
    { apiVersion, kind: 'ClusterRoleBinding', metadata, roleRef, subjects },
  ]) {
    server.kubectlStdin(JSON.stringify(object), 'create', '-f', '-');
  }
  const access = await loadKubeAccess({ kubeconfig: server.kubeconfigFor(token) });
  client = new KubeClient({ userAgent: 'virt-controller', rateLimit: { qps: 1000, burst: 1000 } }, { access });
  const config = { launcherImage: 'virt-launcher', runtimeUser: 0, architecture: 'amd64' };
  const owners = {
    nodeWorkers: 2,
    replicaSetWorkers: 2,
    poolWorkers: 2,
    snapshotWorkers: 2,
    restoreWorkers: 2,
    cloneWorkers: 2,
    exportWorkers: 2,
    backupWorkers: 2,
  };
  const workers = { ...owners, vmWorkers: 2, vmiWorkers: 2, migrationWorkers: 2, evacuationWorkers: 2 };
  const deps = { client, log: silentLogger, randomUuid: randomUUID };
  const authorities = { exportCaDir: '/nonexistent', backupCaDir: '/nonexistent', namespace: 'kubevirt' };
  controller = new Controller({ config, ...workers, authorities, standaloneScheduler: true }, deps);
  await controller.start(AbortSignal.timeout(10_000));
});
after(async () => {
  await controller?.stop();
  client?.close();
  await cluster?.stop();
});

test('a cluster without the kinds is told so in words, and the VM starts when it has them', async () => {
  const vm = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name: 'first', namespace: 'default' },
    spec: { runStrategy: 'Always', template: { spec: { domain: {} } }, instancetype: { name: 'first' } },
  };
  await cluster.client.create(resources.virtualMachines, vm);
  await cluster.until<VirtualMachine>(resources.virtualMachines, 'first', 'told', ({ status }) => {
    const failure = findCondition(status?.conditions, 'Failure');
    const isTold = /has no virtualmachineclusterinstancetypes/.test(failure?.message ?? '');
    return failure?.reason === 'FailedFindInstancetype' && isTold;
  });
  for (const kind of kinds) await cluster.client.create(definitions, definitionOf(kind));
  server.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=30s');
  const type = resources.virtualMachineClusterInstancetypes;
  const spec = { cpu: { guest: 1 }, memory: { guest: '64Mi' } };
  const object = {
    apiVersion: `${type.group}/${type.version}`,
    kind: type.kind,
    metadata: { name: 'first' },
    ...{ spec },
  };
  await cluster.client.create(type, object);
  await cluster.untilVmi('first', 'there', ({ spec: { domain } }) => domain.memory?.guest === '64Mi');
});

suite('with the kinds', () => instancetypeCases(async () => cluster));
