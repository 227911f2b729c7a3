import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import { ApiProgram, type KubeconfigName, type NodePaths, nodePaths } from '../../../src/standalone/index.ts';
import { ApiClient } from '../../fixtures/api-client.ts';
import { Kubectl } from '../../fixtures/kubectl.ts';

const vmi = (name: string) => `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: ${name}}
spec: {domain: {devices: {}, memory: {guest: 64Mi}}}
`;
const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
const selfReviews = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
const oldToken = 'a-token-that-served-everybody-until-now';
const handlerName = 'system:serviceaccount:kubevirt:kubevirt-handler';
const users = {
  admin: 'admin',
  'virt-controller': 'system:serviceaccount:kubevirt:kubevirt-controller',
  'virt-handler': handlerName,
  node: 'system:node:one',
} as const satisfies Record<KubeconfigName, string>;

describe('the API of the standalone node', () => {
  let paths: NodePaths;
  let program: ApiProgram;
  const kubectl = (name: KubeconfigName) =>
    new Kubectl(paths.kubeconfigs[name], path.join(paths.stateDir, 'home', name));
  const client = (name: KubeconfigName) => ApiClient.fromKubeconfig(paths.kubeconfigs[name]);

  before(async () => {
    paths = nodePaths(await mkdtemp(path.join(tmpdir(), 'api-program-')));
    await mkdir(paths.apiDir, { recursive: true });
    await writeFile(path.join(paths.apiDir, 'token'), `${oldToken}\n`);
    program = new ApiProgram({ paths, host: '127.0.0.1', port: 0, nodeName: 'one', nodes: 1 }, { log: silentLogger });
    await program.start();
  });
  after(async () => {
    await program.stop();
    await rm(paths.stateDir, { recursive: true, force: true });
  });

  for (const name of Object.keys(users) as KubeconfigName[]) {
    test(`the kubeconfig of ${name} says ${users[name]}, and is for its owner only`, async () => {
      assert.equal((await stat(paths.kubeconfigs[name])).mode & 0o777, 0o600);
      const { body } = await client(name).post(selfReviews, {});
      assert.equal(body.status.userInfo.username, users[name]);
      assert.ok(!body.status.userInfo.groups.includes('system:masters'));
    });
  }

  test('a copy of the kubeconfig from before there were users still works', async () => {
    const { body } = await client('admin').withToken(oldToken).post(selfReviews, {});
    assert.equal(body.status.userInfo.username, 'admin');
  });

  test('kubectl edit of what the administrator may not change on a VMI is refused with advice, or dropped', async () => {
    const admin = kubectl('admin');
    await admin.run(['create', '-f', '-'], vmi('guarded'));
    const patch = (text: string) => admin.try(['patch', 'vmi', 'guarded', '--type', 'merge', '-p', text]);
    assert.match((await patch('{"spec":{"hostname":"x"}}')).stderr, /delete it and create it again/);
    const label = '{"metadata":{"labels":{"kubevirt.io/nodeName":"elsewhere"}}}';
    assert.match((await patch(label)).stderr, /only KubeVirt sets it/);
    const labelled = vmi('chosen').replace('name: chosen', 'name: chosen, labels: {kubevirt.io/nodeName: elsewhere}');
    const chosen = await admin.try(['create', '-f', '-'], labelled);
    assert.match(chosen.stderr, /nodeName\]: .*only KubeVirt sets it/);
    // kubectl opens the editor again, with the refusal as a comment above the object.
    const seen = path.join(paths.stateDir, 'seen-by-the-editor');
    const editor = path.join(paths.stateDir, 'editor.sh');
    await writeFile(editor, `#!/bin/sh\ncat "$1" >> ${seen}\nsed -i s/64Mi/65Mi/ "$1"\n`, { mode: 0o755 });
    const edited = await admin.try(['edit', 'vmi', 'guarded'], '', { KUBE_EDITOR: editor, TMPDIR: paths.stateDir });
    assert.notEqual(edited.code, 0);
    assert.match(await readFile(seen, 'utf8'), /^# .*delete it and create it again/m);
    assert.equal((await patch('{"status":{"phase":"Running"}}')).code, 0);
    const phase = ['get', 'vmi', 'guarded', '-o', 'jsonpath={.status.phase}'];
    assert.equal(await admin.run(phase), '');
    await client('virt-controller').patch(`${vmis}/guarded`, 'merge', { status: { phase: 'Scheduled' } });
    assert.equal(await admin.run(phase), 'Scheduled');
  });

  interface KubeVirtCase {
    readonly phase?: string;
    readonly featureGates: unknown;
    readonly disabledFeatureGates?: readonly string[];
  }
  const gates: [string, KubeVirtCase, number | undefined][] = [
    ['no phase, so that it is not deployed', { featureGates: ['Root'], phase: '' }, undefined],
    ['no gates, as launchers are root here all the same', { featureGates: ['IncrementalBackup'] }, 0],
    ['the gate Root', { featureGates: ['Root'] }, 0],
    ['the gate Root, listed as on and as off', { featureGates: ['Root'], disabledFeatureGates: ['Root'] }, 0],
  ];
  for (const [what, { phase = 'Deployed', ...developerConfiguration }, runtimeUser] of gates) {
    test(`a KubeVirt object with ${what} gives a new VMI runtimeUser ${runtimeUser}`, async () => {
      const admin = client('admin');
      const all = '/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts';
      const head = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt' } };
      await admin.post(all, { ...head, spec: { configuration: { developerConfiguration } } });
      await admin.patch(`${all}/kubevirt/status`, 'merge', { status: { phase } });
      const made = await kubectl('admin').run(['create', '-o', 'json', '-f', '-'], vmi('gated'));
      const { metadata, status } = JSON.parse(made);
      assert.equal(status.runtimeUser, runtimeUser);
      assert.equal(status.phase, runtimeUser === undefined ? undefined : 'Pending');
      assert.equal(metadata.finalizers?.length ?? 0, runtimeUser === undefined ? 0 : 1);
      await admin.delete(`${vmis}/gated`);
      await admin.patch(`${vmis}/gated`, 'merge', { metadata: { finalizers: null } });
      await admin.delete(`${all}/kubevirt`);
    });
  }

  test('a KubeVirt object with gates that are no list is refused', async () => {
    const spec = { configuration: { developerConfiguration: { featureGates: 'Root' } } };
    const head = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'malformed' } };
    const refused = await client('admin').post('/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts', { ...head, spec });
    assert.deepEqual(
      [refused.status, refused.body.details.causes[0].field],
      [422, 'spec.configuration.developerConfiguration.featureGates'],
    );
  });

  test("the agent updates, lists and watches VMIs, and no more: the rest is a 403 in Kubernetes' words", async () => {
    await kubectl('admin').run(['create', '-f', '-'], vmi('agents'));
    const handler = client('virt-handler');
    const list = await handler.get(vmis);
    assert.equal(list.status, 200);
    const mine = list.body.items.find(({ metadata }: { metadata: { name: string } }) => metadata.name === 'agents');
    const head = { apiVersion: list.body.apiVersion, kind: 'VirtualMachineInstance' };
    const written = await handler.put(`${vmis}/agents`, { ...head, ...mine, status: { phase: 'Running' } });
    assert.equal(written.status, 200, written.text);
    assert.equal(written.body.status.phase, 'Running');
    const refused = [
      await handler.get(`${vmis}/agents`),
      await handler.patch(`${vmis}/agents`, 'merge', { status: {} }),
      await handler.delete(`${vmis}/agents`),
      await handler.delete(vmis),
      await handler.post(vmis, {}),
      await handler.get('/api/v1/pods'),
      await handler.get('/api/v1/namespaces/default/pods/x/log'),
      await handler.get('/api/v1/namespaces/default/secrets/x'),
      await handler.patch('/api/v1/nodes/one/status', 'merge', {}),
      await handler.post('/apis/authentication.k8s.io/v1/tokenreviews', { spec: { token: oldToken } }),
      await handler.post('/apis/authorization.k8s.io/v1/subjectaccessreviews', { spec: { user: 'admin' } }),
    ];
    assert.deepEqual(
      refused.map(({ status, body }) => [status, body.reason]),
      refused.map(() => [403, 'Forbidden']),
    );
    const text = `virtualmachineinstances.kubevirt.io "agents" is forbidden: User "${handlerName}" cannot get resource "virtualmachineinstances" in API group "kubevirt.io" in the namespace "default"`;
    assert.equal(refused[0]?.body.message, text);
  });

  test('kubectl auth can-i answers what is true, for oneself and --as', async () => {
    const questions: [string[], boolean][] = [
      [['update', 'vmis'], true],
      [['get', 'vmis'], false],
      [['patch', 'nodes'], true],
      [['patch', 'nodes', '--subresource=status'], false],
      [['get', 'secrets'], false],
      [['create', 'events'], true],
      [['*', '*'], false],
      [['get', '/apis/kubevirt.io'], true],
      [['get', '/metrics'], false],
    ];
    for (const [question, answer] of questions) {
      const word = answer ? 'yes' : 'no';
      const asked = ['auth', 'can-i', ...question];
      assert.match((await kubectl('virt-handler').try(asked)).stdout, new RegExp(`^${word}\\b`), question.join(' '));
      assert.equal((await kubectl('admin').run(asked)).trim(), 'yes', question.join(' '));
    }
    const asHandler = ['--as', handlerName];
    assert.match((await kubectl('admin').try(['auth', 'can-i', 'get', 'vmis', ...asHandler])).stdout, /^no\b/);
    const rules = await kubectl('virt-handler').run(['auth', 'can-i', '--list']);
    assert.match(rules, /^virtualmachineinstances\.kubevirt\.io\s+\[\]\s+\[\]\s+\[update list watch\]$/m);
    assert.doesNotMatch(rules, /\*\.\*/);
  });

  test('--as works for users of the server, and for who may do everything', async () => {
    const admin = kubectl('admin');
    const unknown = await admin.try(['get', 'vmi', '--as', 'somebody']);
    assert.match(unknown.stderr, /lets you act as one of its users only.*kubevirt-controller/);
    const group = await admin.try(['get', 'vmi', '--as', 'admin', '--as-group', 'system:masters']);
    assert.match(group.stderr, /without --as-group/);
    const handler = await kubectl('virt-handler').try(['get', 'vmi', '--as', 'admin']);
    assert.match(handler.stderr, /cannot impersonate resource "users"/);
    assert.match((await admin.try(['get', 'pods', '--as', handlerName])).stderr, /cannot list resource "pods"/);
  });

  test('questions about others are answered from the tokens; a question about nothing is refused', async () => {
    const ask = (spec: object) => client('admin').post('/apis/authorization.k8s.io/v1/subjectaccessreviews', { spec });
    const resourceAttributes = { verb: 'get', group: '', resource: 'pods' };
    const allowed = async (spec: object) => (await ask({ resourceAttributes, ...spec })).body.status.allowed;
    assert.equal(await allowed({ user: 'system:node:one' }), true);
    assert.equal(await allowed({ user: handlerName }), false);
    assert.equal(await allowed({ user: 'somebody' }), false);
    assert.equal(await allowed({ user: 'somebody', groups: ['system:masters'] }), true);
    assert.equal((await ask({ user: 'admin' })).status, 400);
  });
});
