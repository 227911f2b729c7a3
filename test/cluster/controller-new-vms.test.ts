import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { finalizers, observedApiVersion } from '../../src/api/index.ts';
import { type KubeApiserver, mutatingPolicies, startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** daemonset/controller/new-vms.yaml on a real kube-apiserver that has such policies. No controller runs. */

let cluster: KubeApiserver;

/** Whoever may take away the controller, and not the policy. */
const users = { 'some-token': { name: 'some', groups: [] } };

before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  cluster = await startKubeApiserver(assets, { flags: mutatingPolicies, users });
});
after(() => cluster?.stop());

function run(script: 'install' | 'remove', ...args: string[]): string {
  const { status, text } = cluster.run('bash', `daemonset/controller/${script}.sh`, ...args);
  assert.equal(status, 0, text);
  return text;
}

interface VmMetadata {
  readonly finalizers?: string[];
  readonly annotations?: Record<string, string>;
}

function apply(name: string, metadata: VmMetadata = {}, ...args: string[]): VmMetadata {
  const spec = { runStrategy: 'Halted', template: { spec: { domain: { devices: {} } } } };
  const vm = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name, ...metadata }, spec };
  return JSON.parse(
    cluster.kubectlStdin(JSON.stringify(vm), 'apply', '-n', 'default', '-o', 'json', ...args, '-f', '-'),
  ).metadata;
}

const policies = () =>
  cluster.kubectl('get', 'mutatingadmissionpolicies,mutatingadmissionpolicybindings', '-o', 'name').split('\n');

/** A policy is known to the server some time after it is stored, and is gone some time after it is deleted. */
async function until(name: string, isMet: (metadata: VmMetadata) => boolean): Promise<VmMetadata> {
  for (let at = 0; at < 100; at++) {
    const metadata = apply(`${name}-${at}`);
    if (isMet(metadata)) return metadata;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`${name}: not within 20 s`);
}

test('install.sh applies it, and says so before; run again it changes nothing', () => {
  assert.match(run('install', '--dry-run'), /would apply mutatingadmissionpolicy\S*\/virt-controller-new-vms/);
  assert.deepEqual(policies(), ['']);
  run('install', '--no-wait');
  assert.equal(policies().length, 3);
  assert.match(run('install', '--no-wait'), /mutatingadmissionpolicy\S*\/virt-controller-new-vms unchanged/);
});

test('who may not take it away does not take the controller away, which lets go of what it holds', () => {
  const rights = ['--verb=*', '--resource=deployments.apps,poddisruptionbudgets.policy'];
  cluster.kubectl('create', 'clusterrole', 'some', ...rights);
  cluster.kubectl('create', 'clusterrolebinding', 'some', '--clusterrole=some', '--user=some');
  const kubeconfig = `KUBECONFIG=${cluster.kubeconfigFor('some-token')}`;
  const { status, text } = cluster.run('env', kubeconfig, 'bash', 'daemonset/controller/remove.sh');
  assert.equal(status, 1, text);
  assert.match(text, /mutatingadmissionpolic.* is forbidden/);
  assert.match(cluster.kubectl('get', 'deployment', '-n', 'kubevirt', '-o', 'name'), /virt-controller/);
});

test('a new VM has the finalizer of its controller, and the version it is known by', async () => {
  const made = await until('new', ({ finalizers: names }) => names !== undefined);
  assert.deepEqual(made.finalizers, [finalizers.vm]);
  for (const [name, value] of Object.entries(observedApiVersion)) assert.equal(made.annotations?.[name], value);
});

test('what it brings stays, whatever it has besides and however it is applied', () => {
  const own = { finalizers: ['example.com/own', finalizers.vm], annotations: { 'example.com/note': 'kept' } };
  const brought = apply('brought', own);
  assert.deepEqual(brought.finalizers, own.finalizers);
  assert.equal(brought.annotations?.['example.com/note'], 'kept');
  assert.ok(Object.keys(observedApiVersion).every((name) => name in (brought.annotations ?? {})));
  const added = apply('added', { finalizers: ['example.com/own'] });
  assert.deepEqual(added.finalizers?.toSorted(), ['example.com/own', finalizers.vm].toSorted());
});

test('whoever applies the VM again, on the server’s side, too, does not take it off', () => {
  for (const args of [[], ['--server-side']]) {
    const name = `again${args.length}`;
    assert.deepEqual(apply(name, {}, ...args).finalizers, [finalizers.vm]);
    const again = apply(name, { annotations: { 'example.com/note': 'new' } }, ...args);
    assert.deepEqual(again.finalizers, [finalizers.vm]);
    assert.equal(again.annotations?.['example.com/note'], 'new');
  }
});

test('after remove.sh a new VM is without it, so that nothing holds what no controller would let go', async () => {
  assert.match(run('remove', '--dry-run'), /would delete mutatingadmissionpolicy\S*\/virt-controller-new-vms/);
  run('remove');
  assert.deepEqual(policies(), ['']);
  await until('late', ({ finalizers: names }) => names === undefined);
});
