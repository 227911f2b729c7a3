import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** install.sh and remove.sh of daemonset/controller on a real kube-apiserver, with and without an operator. There are no nodes to wait for. */

let cluster: KubeApiserver;

before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  cluster = await startKubeApiserver(assets, { bare: true });
});
after(() => cluster?.stop());

function run(script: 'install' | 'remove', ...args: string[]) {
  return cluster.run('bash', `daemonset/controller/${script}.sh`, ...args);
}

const ours = () =>
  cluster
    .kubectl(
      'get',
      'deployment,poddisruptionbudget,role,rolebinding,clusterrole,clusterrolebinding',
      '-A',
      '-o',
      'name',
    )
    .split('\n')
    .filter((name) => /controller-typescript|\/virt-controller/.test(name));

/** A Deployment as virt-operator makes them. */
function createDeployment(name: string): void {
  const labels = { 'kubevirt.io': name };
  const template = { metadata: { labels }, spec: { containers: [{ name, image: `quay.io/kubevirt/${name}:v1.9.0` }] } };
  const deployment = {
    ...{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name, namespace: 'kubevirt', labels } },
    spec: { replicas: 2, selector: { matchLabels: labels }, template },
  };
  cluster.kubectlStdin(JSON.stringify(deployment), 'create', '-f', '-');
}

test('without the prerequisites install.sh says what is missing, and makes nothing', () => {
  const { status, text } = run('install', '--no-wait');
  assert.equal(status, 1);
  assert.match(text, /namespace\/kubevirt is missing: daemonset\/install\.sh makes it/);
  assert.deepEqual(ours(), []);
  cluster.kubectl('create', '-k', 'daemonset/prerequisites');
  cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=30s');
});

test('all that kustomize makes is taken by the API server, which knows each field', () => {
  for (const dir of ['daemonset/controller', 'daemonset/controller/beside-virt-operator']) {
    const text = execFileSync('kubectl', ['kustomize', dir], { encoding: 'utf8' });
    const args = ['apply', '--server-side', '--validate=strict', '--dry-run=server', '-f', '-'];
    const lines = cluster.kubectlStdin(text, ...args);
    assert.equal(lines.trim().split('\n').length, parseAllDocuments(text).length, lines);
  }
});

test('install.sh makes all of it, run again changes nothing, and --dry-run says what it would make', () => {
  const dry = run('install', '--dry-run');
  assert.equal(dry.status, 0, dry.text);
  assert.match(dry.text, /would apply a Deployment/);
  assert.deepEqual(ours(), []);
  const first = run('install', '--no-wait');
  assert.equal(first.status, 0, first.text);
  // Its default: Kubernetes 1.34 has no policies that change objects.
  assert.match(first.text, /^new-vms\.yaml is left out: this API server has no MutatingAdmissionPolicy/m);
  assert.equal(ours().length, 6);
  const again = run('install', '--no-wait');
  // kubectl calls it a change that it replaces the selector of a budget, whatever it is.
  const known = / unchanged$|^cluster: |^poddisruptionbudget|^new-vms\.yaml is left out/;
  const changed = again.text.split('\n').filter((line) => line !== '' && !known.test(line));
  assert.deepEqual(changed, []);
});

test('its account may do what the role says, and nothing else', () => {
  const can = (...what: string[]) => {
    const as = '--as=system:serviceaccount:kubevirt:kubevirt-controller';
    const { adminKubeconfig } = cluster;
    const { stdout } = spawnSync('kubectl', ['--kubeconfig', adminKubeconfig, 'auth', 'can-i', ...what, as], {
      encoding: 'utf8',
    });
    return stdout.trim();
  };
  assert.equal(can('update', 'leases.coordination.k8s.io', '-n', 'kubevirt'), 'yes');
  assert.equal(can('update', 'leases.coordination.k8s.io', '-n', 'default'), 'no');
  assert.equal(can('create', 'pods', '-A'), 'yes');
  assert.equal(can('get', 'secrets', '-n', 'default'), 'no');
  assert.equal(can('delete', 'nodes'), 'no');
});

test('remove.sh takes all of it away and keeps CRDs, VMIs and the account', () => {
  const vmi = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name: 'kept' } };
  const object = JSON.stringify({ ...vmi, spec: { domain: { devices: {} } } });
  cluster.kubectlStdin(object, 'create', '-n', 'default', '-f', '-');
  const dry = run('remove', '--dry-run');
  assert.match(dry.text, /would delete deployment\.apps\/virt-controller/);
  assert.equal(ours().length, 6);
  const removed = run('remove');
  assert.equal(removed.status, 0, removed.text);
  assert.deepEqual(ours(), []);
  assert.match(cluster.kubectl('get', 'vmi', '-n', 'default', '-o', 'name'), /\/kept/);
  cluster.kubectl('get', 'serviceaccount', '-n', 'kubevirt', 'kubevirt-controller');
});

test('another virt-controller, or virt-operator, is a reason to refuse; beside virt-operator is asked for, and takes nothing of upstream’s', () => {
  createDeployment('virt-controller');
  const other = run('install', '--no-wait');
  assert.equal(other.status, 1);
  assert.match(other.text, /another virt-controller is here \(kubevirt\/virt-controller \)/);
  const without = run('install', '--no-wait', '--beside-virt-operator');
  assert.match(without.text, /there is no virt-operator here/);
  createDeployment('virt-operator');
  const refused = run('install', '--no-wait');
  assert.equal(refused.status, 1);
  assert.match(refused.text, /virt-operator looks after KubeVirt here .*--beside-virt-operator/);
  const spec = () =>
    cluster.kubectl('get', 'deployment', '-n', 'kubevirt', 'virt-controller', '-o', 'jsonpath={.spec}');
  const was = spec();
  const beside = run('install', '--no-wait', '--beside-virt-operator');
  assert.equal(beside.status, 0, beside.text);
  assert.ok(ours().includes('deployment.apps/virt-controller-typescript'));
  assert.equal(run('remove').status, 0);
  assert.deepEqual(ours(), ['deployment.apps/virt-controller']);
  assert.equal(spec(), was);
});
