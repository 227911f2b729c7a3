import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  type DataVolume,
  findCondition,
  type KubeObject,
  type PersistentVolumeClaim,
  type ResourceType,
  resources,
  type VirtualMachine,
} from '../../src/api/index.ts';
import { loadKubeAccess } from '../../src/kube/index.ts';
import { definitionOf, definitions, importerTypes } from '../fixtures/controller/cdi.ts';
import { Cluster } from '../fixtures/controller/cluster.ts';
import { startKubeApiserver } from '../fixtures/kube-apiserver.ts';
import { upstreamControllerRules } from '../fixtures/upstream-controller-role.ts';

/** Templates of DataVolumes on a real kube-apiserver, by a controller with the rights of upstream's. It learns the kinds while that runs; the importer is played. */

/** The scheduler of the standalone node is part of the controller here. */
const schedulerRule = { apiGroups: [''], resources: ['pods/binding'], verbs: ['create'] };
const rbac = 'rbac.authorization.k8s.io';
const token = 'controller-token';
let cluster: Cluster;
before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  const server = await startKubeApiserver(assets, { users: { [token]: { name: 'virt-controller', groups: [] } } });
  const metadata = { name: 'virt-controller-as-upstream' };
  const roleRef = { apiGroup: rbac, kind: 'ClusterRole', name: metadata.name };
  const subjects = [{ apiGroup: rbac, kind: 'User', name: 'virt-controller' }];
  for (const object of [
    { apiVersion: `${rbac}/v1`, kind: 'ClusterRole', metadata, rules: [...upstreamControllerRules, schedulerRule] },
    { apiVersion: `${rbac}/v1`, kind: 'ClusterRoleBinding', metadata, roleRef, subjects },
  ]) {
    server.kubectlStdin(JSON.stringify(object), 'create', '-f', '-');
  }
  cluster = new Cluster({
    access: await loadKubeAccess({ kubeconfig: server.adminKubeconfig }),
    controllerAccess: await loadKubeAccess({ kubeconfig: server.kubeconfigFor(token) }),
    stop: () => server.stop(),
  });
  await cluster.addNode();
  await cluster.startController();
});
after(() => cluster?.stop());

interface Wanted {
  readonly runStrategy?: 'Always' | 'Halted';
  readonly source?: object;
  readonly more?: object;
}

async function vmWith(name: string, { runStrategy = 'Always', source, more }: Wanted = {}): Promise<VirtualMachine> {
  const spec = { ...(source ?? { source: { blank: {} } }), storage: { resources: { requests: { storage: '1Gi' } } } };
  const volumes = [{ name: 'root', dataVolume: { name } }];
  return cluster.client.create<VirtualMachine>(resources.virtualMachines, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name, namespace: 'default' },
    spec: {
      runStrategy,
      dataVolumeTemplates: [{ metadata: { name }, spec }],
      template: { spec: { domain: { memory: { guest: '64Mi' } }, volumes } },
      ...more,
    },
  } as never);
}

const untilVm = (name: string, what: string, holds: (vm: VirtualMachine) => boolean) =>
  cluster.until<VirtualMachine>(resources.virtualMachines, name, what, holds);
const untilPrinted = (name: string, value: string) =>
  untilVm(name, value, ({ status }) => status?.printableStatus === value);
const untilFailure = (name: string, message: RegExp) =>
  untilVm(name, `Failure ${message}`, ({ status }) =>
    message.test(findCondition(status?.conditions, 'Failure')?.message ?? ''),
  );
const untilMade = (name: string, holds: (object: DataVolume) => boolean = () => true) =>
  cluster.until<DataVolume>(resources.dataVolumes, name, 'made', holds);
const isOwnedBy = (vm: VirtualMachine) => (object: KubeObject) =>
  object.metadata.ownerReferences?.some(({ uid, controller }) => controller && uid === vm.metadata.uid) === true;

async function becomes(name: string, status: DataVolume['status']): Promise<void> {
  const target = { namespace: 'default', name };
  await cluster.client.patch(resources.dataVolumes, target, { status }, 'merge', { subresource: 'status' });
}

async function claimOf(name: string, owner: KubeObject, type: ResourceType): Promise<void> {
  const apiVersion = `${type.group}/${type.version}`;
  const { uid = '' } = owner.metadata;
  await cluster.client.create<PersistentVolumeClaim>(resources.persistentVolumeClaims, {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name,
      namespace: 'default',
      ownerReferences: [{ apiVersion, kind: type.kind, name, uid, controller: true }],
    },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  });
}

test('a VM with templates says that this cluster has no DataVolumes, until it has', async () => {
  const vm = await vmWith('early');
  await untilFailure('early', /this cluster has no datavolumes\.cdi\.kubevirt\.io: install/);
  await cluster.untilEvent('early', 'FailedDataVolumeCreate');
  for (const type of importerTypes) await cluster.client.create(definitions, definitionOf(type));
  await untilMade('early', isOwnedBy(vm));
  await untilVm('early', 'without Failure', ({ status }) => !findCondition(status?.conditions, 'Failure'));
});

test('a VM makes its DataVolume and runs when that is filled, not before', async () => {
  const vm = await vmWith('ordinary');
  const made = await untilMade('ordinary', isOwnedBy(vm));
  assert.equal(made.metadata.labels?.['kubevirt.io/created-by'], vm.metadata.uid);
  await cluster.untilEvent('ordinary', 'SuccessfulDataVolumeCreate');
  await untilPrinted('ordinary', 'Provisioning');
  assert.equal(await cluster.find(resources.virtualMachineInstances, 'ordinary'), undefined);
  await claimOf('ordinary', made, resources.dataVolumes);
  await becomes('ordinary', { phase: 'Succeeded' });
  const { metadata } = await cluster.untilPhase('ordinary', 'Scheduling');
  await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName === 'node1');
});

test('a halted VM makes its DataVolumes, too, and says how they are', async () => {
  const vm = await vmWith('halted', { runStrategy: 'Halted' });
  await untilMade('halted', isOwnedBy(vm));
  await untilPrinted('halted', 'Provisioning');
  await becomes('halted', { phase: 'Failed' });
  await untilPrinted('halted', 'DataVolumeError');
  await becomes('halted', { phase: 'Succeeded' });
  await untilPrinted('halted', 'Stopped');
});

test('a DataVolume that fails keeps the guest back, in words', async () => {
  await vmWith('broken');
  await untilMade('broken');
  await becomes('broken', { phase: 'Failed' });
  await untilFailure('broken', /DataVolume broken: Failed/);
  await cluster.untilEvent('broken', 'FailedDataVolumeImport');
  await untilPrinted('broken', 'DataVolumeError');
});

test('a VM takes a DataVolume over that nothing controls, and none of another VM', async () => {
  const free = { apiVersion: 'cdi.kubevirt.io/v1beta1', kind: 'DataVolume', spec: { source: { blank: {} } } };
  await cluster.client.create(resources.dataVolumes, { ...free, metadata: { name: 'free', namespace: 'default' } });
  await untilMade('free', isOwnedBy(await vmWith('free')));
  const templates = [{ metadata: { name: 'free' }, spec: { source: { blank: {} } } }];
  await vmWith('second', { more: { dataVolumeTemplates: templates } });
  await untilFailure('second', /DataVolume free belongs to VirtualMachine free/);
});

test('a claim that its importer left to the VM is a disk, and no DataVolume is made again', async () => {
  const vm = await vmWith('collected', { runStrategy: 'Halted' });
  await untilMade('collected', isOwnedBy(vm));
  await claimOf('collected', vm, resources.virtualMachines);
  await cluster.client.delete(resources.dataVolumes, { name: 'collected', namespace: 'default' });
  await untilPrinted('collected', 'Stopped');
  const start = { spec: { runStrategy: 'Always' } };
  await cluster.client.patch(resources.virtualMachines, vm.metadata, start, 'merge');
  await cluster.untilPhase('collected', 'Scheduling');
  assert.equal(await cluster.find(resources.dataVolumes, 'collected'), undefined);
});

test('a clone from another namespace needs the right of the service account there, as RBAC has it', async () => {
  const core = { group: '', version: 'v1' };
  const namespaces: ResourceType = { ...core, resource: 'namespaces', kind: 'Namespace', namespaced: false };
  await cluster.client.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'images' } });
  await cluster.client.create(resources.dataSources, {
    ...{ apiVersion: 'cdi.kubevirt.io/v1beta1', kind: 'DataSource', metadata: { name: 'fedora', namespace: 'images' } },
    ...{ spec: { source: { pvc: { name: 'golden', namespace: 'images' } } } },
  } as KubeObject);
  const ref = { kind: 'DataSource', name: 'fedora', namespace: 'images' };
  const vm = await vmWith('clone', { runStrategy: 'Halted', source: { sourceRef: ref } });
  await untilFailure('clone', /serviceaccount:default:default has insufficient permissions .* images/);
  await cluster.untilEvent('clone', 'UnauthorizedDataVolumeCreate');
  assert.equal(await cluster.find(resources.dataVolumes, 'clone'), undefined);
  const ofRights = { group: rbac, version: 'v1', namespaced: true };
  const roles: ResourceType = { ...ofRights, resource: 'roles', kind: 'Role' };
  const bindings: ResourceType = { ...ofRights, resource: 'rolebindings', kind: 'RoleBinding' };
  const apiVersion = `${rbac}/v1`;
  const metadata = { name: 'cloners', namespace: 'images' };
  const rules = [{ apiGroups: ['cdi.kubevirt.io'], resources: ['datavolumes/source'], verbs: ['create'] }];
  await cluster.client.create(roles, { apiVersion, kind: 'Role', metadata, rules } as KubeObject);
  await cluster.client.create(bindings, {
    ...{ apiVersion, kind: 'RoleBinding', metadata },
    roleRef: { apiGroup: rbac, kind: 'Role', name: 'cloners' },
    subjects: [{ kind: 'ServiceAccount', name: 'default', namespace: 'default' }],
  } as KubeObject);
  const made = await untilMade('clone', isOwnedBy(vm));
  assert.deepEqual(made.spec?.source, { pvc: { name: 'golden', namespace: 'images' } });
  assert.equal(made.spec?.sourceRef, undefined);
});
