import assert from 'node:assert/strict';
import { after, before, beforeEach, suite, test } from 'node:test';
import { ApiClient } from '../fixtures/api-client.ts';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** replace.sh and restore.sh against a real kube-apiserver: what they write into the KubeVirt object, and when they refuse to. */

const kubevirts = '/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts';
const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
const deployed = { phase: 'Deployed', observedKubeVirtVersion: 'v1.9.0' };
const foreignPatch = { resourceType: 'Deployment', resourceName: 'virt-api', type: 'strategic', patch: '{"spec":{}}' };

let cluster: KubeApiserver;
let admin: ApiClient;

before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  cluster = await startKubeApiserver(assets);
  admin = ApiClient.fromKubeconfig(cluster.adminKubeconfig);
});
after(() => cluster?.stop());
beforeEach(async () => {
  await admin.delete(kubevirts);
  await admin.delete(vmis);
});

function run(script: 'replace' | 'restore', ...args: string[]) {
  return cluster.run('bash', `daemonset/overlays/replace-upstream/${script}.sh`, ...args);
}

async function kubevirt(spec: object, status: object = deployed, name = 'kubevirt'): Promise<void> {
  const object = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name }, spec };
  const created = await admin.post(kubevirts, object);
  assert.equal(created.status, 201, created.text);
  const written = await admin.put(`${kubevirts}/${name}/status`, { ...created.body, status });
  assert.ok(written.status === 200 || written.status === 404, written.text);
  if (written.status === 404) await admin.put(`${kubevirts}/${name}`, { ...created.body, status });
}

async function vmi(name: string, spec: object): Promise<void> {
  const object = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name }, spec };
  const created = await admin.post(vmis, object);
  assert.equal(created.status, 201, created.text);
}

async function spec(): Promise<{ customizeComponents?: { patches?: Record<string, string>[]; flags?: object } }> {
  return (await admin.get(`${kubevirts}/kubevirt`)).body.spec;
}

interface Probe {
  readonly periodSeconds: number;
  readonly failureThreshold: number;
}

/** A DaemonSet with the probes of upstream's and no pods; its path. */
async function upstreamDaemonSet(): Promise<string> {
  const path = '/apis/apps/v1/namespaces/default/daemonsets';
  const httpGet = { scheme: 'HTTPS', port: 8443, path: '/healthz' };
  const probe = { httpGet, initialDelaySeconds: 15, timeoutSeconds: 10 };
  const livenessProbe = { ...probe, periodSeconds: 45 };
  const readinessProbe = { ...probe, periodSeconds: 20 };
  const container = { name: 'virt-handler', image: 'upstream', livenessProbe, readinessProbe };
  const labels = { 'kubevirt.io': 'upstream' };
  const created = await admin.post(path, {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: 'virt-handler' },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [container] } },
    },
  });
  assert.ok(created.status === 201 || created.status === 409, created.text);
  return `${path}/virt-handler`;
}

suite('replace.sh', () => {
  test('writes one patch with the given image, and another image in its place when it is run again', async () => {
    await kubevirt({ configuration: {} });
    for (const image of ['registry.example:5000/virt-handler@sha256:abc', 'localhost/virt-handler:0.2.0']) {
      const { status, text } = run('replace', '--no-wait', '--image', image);
      assert.equal(status, 0, text);
      const { patches = [] } = (await spec()).customizeComponents ?? {};
      assert.equal(patches.length, 1);
      const { patch = '', ...about } = patches[0] ?? {};
      assert.deepEqual(about, { resourceType: 'DaemonSet', resourceName: 'virt-handler', type: 'strategic' });
      const [container] = JSON.parse(patch).spec.template.spec.containers;
      assert.deepEqual([container.name, container.image], ['virt-handler', image]);
    }
  });

  const before: readonly [string, object][] = [
    ['no customizeComponents', { configuration: {} }],
    ["an empty customizeComponents, as upstream's own example has", { customizeComponents: {} }],
    ['an empty list of patches', { customizeComponents: { patches: [] } }],
    ['patches of others', { customizeComponents: { patches: [foreignPatch] } }],
    ['flags', { customizeComponents: { flags: { handler: { v: '5' } } } }],
    ['both', { customizeComponents: { flags: { api: { v: '5' } }, patches: [foreignPatch, foreignPatch] } }],
  ];
  for (const [what, given] of before) {
    test(`and restore.sh leave a KubeVirt object with ${what} as it was`, async () => {
      await kubevirt(given);
      // The second time it changes its own patch, and must not forget what it found the first time.
      for (const image of ['localhost/virt-handler:1', 'localhost/virt-handler:2']) {
        const replaced = run('replace', '--no-wait', '--image', image);
        assert.equal(replaced.status, 0, replaced.text);
        assert.match(JSON.stringify(await spec()), new RegExp(image));
      }
      const restored = run('restore', '--no-wait');
      assert.equal(restored.status, 0, restored.text);
      assert.deepEqual(await spec(), given);
    });
  }

  test('and restore.sh leave what others have added in between', async () => {
    await kubevirt({ configuration: {} });
    run('replace', '--no-wait');
    const flags = { handler: { v: '5' } };
    await admin.patch(`${kubevirts}/kubevirt`, 'merge', { spec: { customizeComponents: { flags } } });
    const restored = run('restore', '--no-wait');
    assert.equal(restored.status, 0, restored.text);
    assert.deepEqual((await spec()).customizeComponents, { flags });
  });

  test('goes on where VMs have networks of their pods, or nothing at all', async () => {
    await kubevirt({ configuration: {} });
    await vmi('plain', { domain: {} });
    await vmi('networked', { domain: { devices: {} }, networks: [{ name: 'a', pod: {} }] });
    const { status, text } = run('replace', '--dry-run');
    assert.equal(status, 0, text);
  });

  test('--dry-run shows the change and writes nothing', async () => {
    await kubevirt({ configuration: {} });
    const { status, text } = run('replace', '--dry-run');
    assert.equal(status, 0, text);
    assert.match(text, /would write .*customizeComponents/s);
    assert.deepEqual(await spec(), { configuration: {} });
  });

  test('lays on a DaemonSet what the agent needs, and leaves the rest of it', async () => {
    await kubevirt({ configuration: {} });
    run('replace', '--no-wait', '--image', 'localhost/virt-handler:9');
    const [patch] = (await spec()).customizeComponents?.patches ?? [];
    const path = '/apis/apps/v1/namespaces/kubevirt/daemonsets/virt-handler';
    const { body: was } = await admin.get(path);
    const patched = await admin.patch(`${path}?dryRun=All`, 'strategic', JSON.parse(patch?.patch ?? ''));
    assert.equal(patched.status, 200, patched.text);
    const [container] = patched.body.spec.template.spec.containers;
    assert.equal(container.image, 'localhost/virt-handler:9');
    assert.equal(container.livenessProbe.httpGet.path, '/livez');
    const [old] = was.spec.template.spec.containers;
    assert.deepEqual([container.args, container.volumeMounts], [old.args, old.volumeMounts]);
  });

  test('gives an agent that waits for certificates the hour that its own DaemonSet gives it', async () => {
    await kubevirt({ configuration: {} });
    run('replace', '--no-wait');
    const [patch] = (await spec()).customizeComponents?.patches ?? [];
    const upstream = await upstreamDaemonSet();
    const patched = await admin.patch(`${upstream}?dryRun=All`, 'strategic', JSON.parse(patch?.patch ?? ''));
    assert.equal(patched.status, 200, patched.text);
    const [container] = patched.body.spec.template.spec.containers;
    const own = (await admin.get('/apis/apps/v1/namespaces/kubevirt/daemonsets/virt-handler')).body;
    const [expected] = own.spec.template.spec.containers;
    for (const probe of ['startupProbe', 'livenessProbe'] as const) {
      assert.deepEqual(container[probe].httpGet, expected[probe].httpGet);
      const time = ({ periodSeconds, failureThreshold }: Probe) => periodSeconds * failureThreshold;
      assert.equal(time(container[probe]), time(expected[probe]));
    }
  });

  const refusals: readonly [string, () => Promise<unknown>, readonly string[], RegExp][] = [
    ['there is no KubeVirt', async () => undefined, [], /no KubeVirt object/],
    [
      'there are two KubeVirts',
      async () => {
        await kubevirt({});
        await kubevirt({}, deployed, 'other');
      },
      [],
      /more than one/,
    ],
    ['KubeVirt is being installed', () => kubevirt({}, { phase: 'Deploying' }), [], /not Deployed/],
    [
      'KubeVirt has another version',
      () => kubevirt({}, { ...deployed, observedKubeVirtVersion: 'v1.5.0' }),
      [],
      /v1\.5\.0/,
    ],
    [
      "another patch changes the agent's image",
      () =>
        kubevirt({
          customizeComponents: {
            patches: [
              { ...foreignPatch, resourceType: 'DaemonSet', resourceName: 'virt-handler', patch: '{"image":1}' },
            ],
          },
        }),
      [],
      /another patch/,
    ],
    ['the image has no such name', () => kubevirt({}), ['--image', 'a"},{"b'], /no name of an image/],
    ['an option is unknown', () => kubevirt({}), ['--force'], /unknown: --force/],
  ];
  for (const [situation, arrange, args, words] of refusals) {
    test(`writes nothing and says why when ${situation}`, async () => {
      await arrange();
      const { body: before } = await admin.get(kubevirts);
      const { status, text } = run('replace', '--no-wait', ...args);
      assert.notEqual(status, 0);
      assert.match(text, words);
      assert.deepEqual((await admin.get(kubevirts)).body.items, before.items);
    });
  }

  test('puts an image of one architecture on nodes of one only, unless it is for all', async () => {
    await kubevirt({});
    for (const architecture of ['amd64', 'arm64']) {
      const metadata = { name: architecture, labels: { 'kubevirt.io/schedulable': 'true' } };
      const created = await admin.post('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata });
      assert.equal(created.status, 201, created.text);
      const status = { nodeInfo: { architecture } };
      const patched = await admin.patch(`/api/v1/nodes/${architecture}/status`, 'merge', { status });
      assert.equal(patched.status, 200, patched.text);
    }
    const refused = run('replace', '--no-wait');
    assert.equal(refused.status, 1);
    assert.match(refused.text, /several architectures: amd64 arm64/);
    assert.equal(run('replace', '--no-wait', '--all-architectures').status, 0);
    await admin.delete('/api/v1/nodes');
  });

  test('goes on where that is asked for', async () => {
    await kubevirt({}, { ...deployed, observedKubeVirtVersion: 'v1.9.1' });
    const { status, text } = run('replace', '--no-wait', '--any-version');
    assert.equal(status, 0, text);
  });

  test('says how to go on when virt-operator does not take it up', async () => {
    await kubevirt({});
    const { status, text } = run('replace', '--wait-seconds', '1');
    assert.equal(status, 1);
    assert.match(text, /virt-operator has not changed its DaemonSet/);
  });
});

test('restore.sh does nothing where nothing was replaced', async () => {
  await kubevirt({ customizeComponents: { patches: [foreignPatch] } });
  const { status, text } = run('restore', '--no-wait');
  assert.equal(status, 0, text);
  assert.match(text, /nothing to do/);
  assert.deepEqual(await spec(), { customizeComponents: { patches: [foreignPatch] } });
});
