import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** install.sh on an empty cluster. There are no nodes, and so no agents to wait for. */

let cluster: KubeApiserver;

before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  cluster = await startKubeApiserver(assets, { bare: true });
});
after(() => cluster?.stop());

const install = (...args: string[]) => cluster.run('bash', 'daemonset/install.sh', ...args);

const crds = () => cluster.kubectl('get', 'crd', '-o', 'name').trim().split('\n').filter(Boolean);

test('install.sh --dry-run says what it would make, and makes nothing', () => {
  const { status, text } = install('--dry-run', '--no-wait');
  assert.equal(status, 0, text);
  assert.match(text, /would make customresourcedefinition\S*kubevirts\.kubevirt\.io/);
  assert.match(text, /would apply a DaemonSet/);
  assert.deepEqual(crds(), []);
});

test('install.sh goes on where a run before it was ended half way', () => {
  cluster.kubectl('create', '-f', 'daemonset/prerequisites/namespace.yaml');
  cluster.kubectl('create', '-f', 'daemonset/prerequisites/crds/kubevirts.yaml');
  const { status, text } = install('--no-wait');
  assert.equal(status, 0, text);
  assert.equal(crds().length, readdirSync('daemonset/prerequisites/crds').length);
  cluster.kubectl('get', 'daemonset', '-n', 'kubevirt', 'virt-handler');
});

test('install.sh run again changes nothing', () => {
  const { status, text } = install('--no-wait');
  assert.equal(status, 0, text);
  const lines = text.trim().split('\n').slice(1);
  assert.ok(lines.length > 5);
  assert.deepEqual(
    lines.filter((line) => !line.endsWith(' unchanged')),
    [],
  );
});

test('install.sh takes an overlay in place of the whole, and refuses a folder that is none', () => {
  const tight = install('--no-wait', 'daemonset/overlays/tight-rights');
  assert.equal(tight.status, 0, tight.text);
  cluster.kubectl('get', 'validatingadmissionpolicy', 'virt-handler-own-node');
  const none = install('--no-wait', 'daemonset/prerequisites/crds');
  assert.equal(none.status, 1);
  assert.match(none.text, /holds no kustomization\.yaml/);
});

test('removing the agent keeps CRDs and namespace, and all that lives in them', () => {
  const vmi = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name: 'kept' } };
  const object = JSON.stringify({ ...vmi, spec: { domain: { devices: {} } } });
  cluster.kubectlStdin(object, 'create', '-n', 'default', '-f', '-');
  cluster.kubectl('delete', '-k', 'daemonset/overlays/tight-rights');
  assert.match(cluster.kubectl('get', 'vmi', '-n', 'default', '-o', 'name'), /\/kept/);
  assert.equal(cluster.kubectl('get', 'daemonset', '-n', 'kubevirt', '-o', 'name'), '');
});
