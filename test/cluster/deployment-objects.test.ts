import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { prometheusOperatorCrds } from '../../scripts/upstream-crds.mjs';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** All that kustomize makes of daemonset/ is taken by a real kube-apiserver, with every field known to it. */

let cluster: KubeApiserver;

before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  cluster = await startKubeApiserver(assets);
});
after(() => cluster?.stop());

const render = (dir: string) => execFileSync('kubectl', ['kustomize', dir], { encoding: 'utf8' });

suite('manifests', () => {
  const overlays = ['tight-rights', 'least-privilege', 'migration-relay'].map((name) => `/overlays/${name}`);
  const folders = ['', '/base', '/prerequisites', '/policies', ...overlays];
  const dirs = folders.map((dir) => `daemonset${dir}`);
  for (const dir of dirs) {
    test(`${dir} is taken, and knows no field that the API server does not`, () => {
      const args = ['apply', '--server-side', '--force-conflicts', '--validate=strict', '--dry-run=server', '-f', '-'];
      const lines = cluster
        .kubectlStdin(render(dir), ...args)
        .trim()
        .split('\n');
      assert.equal(lines.length, parseAllDocuments(render(dir)).length, lines.join('\n'));
    });
  }

  test('applied twice change nothing the second time', () => {
    cluster.kubectl('apply', '-k', 'daemonset/overlays/tight-rights');
    const again = cluster.kubectl('apply', '-k', 'daemonset/overlays/tight-rights');
    assert.deepEqual(
      again.split('\n').filter((line) => line !== '' && !line.endsWith(' unchanged')),
      [],
    );
  });

  test('without `privileged` take the place of those with it, and the other way round', () => {
    const rightsAfter = (overlay: string) => {
      cluster.kubectl('apply', '-k', `daemonset/overlays/${overlay}`);
      const found = cluster.kubectl('get', 'daemonset', '-n', 'kubevirt', 'virt-handler', '-o', 'json');
      const { containers, initContainers } = JSON.parse(found).spec.template.spec;
      return {
        ...containers[0].securityContext,
        init: initContainers.map(({ name }: { name: string }) => name).sort(),
      };
    };
    const before = rightsAfter('tight-rights');
    assert.equal(before.privileged, true);
    const bound = rightsAfter('least-privilege');
    assert.deepEqual(
      [bound.privileged, bound.capabilities.drop, bound.init],
      [false, ['ALL'], ['seccomp-profile', 'virt-launcher']],
    );
    assert.deepEqual(rightsAfter('tight-rights'), before);
  });

  test('of the tight rights are taken away by applying the base and deleting the policies', () => {
    cluster.kubectl('apply', '-k', 'daemonset/overlays/tight-rights');
    cluster.kubectl('delete', '-k', 'daemonset/policies');
    cluster.kubectl('apply', '-k', 'daemonset');
    const can = cluster.kubectl(
      'auth',
      'can-i',
      'watch',
      'customresourcedefinitions.apiextensions.k8s.io',
      '--as',
      'system:serviceaccount:kubevirt:kubevirt-handler',
    );
    assert.equal(can.trim(), 'yes');
  });
});

const monitoringCrds = prometheusOperatorCrds();
const skip = monitoringCrds === undefined ? "the Prometheus operator's CRDs come with `go`, once" : false;

suite('for the Prometheus operator', { skip }, () => {
  before(() => {
    for (const file of monitoringCrds ?? []) cluster.kubectl('create', '-f', file);
    cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s');
  });

  for (const file of [
    'daemonset/components/service-monitor/service-monitor.yaml',
    'monitoring/prometheus-rules.yaml',
  ]) {
    test(`${file} is taken, and knows no field that its CRD does not`, () => {
      const name = cluster.kubectl('apply', '--validate=strict', '-n', 'kubevirt', '-f', file, '-o', 'name').trim();
      assert.match(name, /monitoring\.coreos\.com\//);
    });
  }

  test('its component watches a service that the base makes, at a port that this has', () => {
    const service = 'kubevirt-prometheus-metrics';
    const monitor = JSON.parse(cluster.kubectl('get', 'servicemonitor', '-n', 'kubevirt', '-o', 'json')).items[0].spec;
    const found = cluster.kubectl('get', 'service', '-n', 'kubevirt', '-o', 'json', '-l', selector(monitor.selector));
    const [{ metadata, spec }] = JSON.parse(found).items;
    assert.equal(metadata.name, service);
    assert.ok(monitor.endpoints.every(({ port }: Named) => spec.ports.some(({ name }: Named) => name === port)));
  });
});

interface Named {
  readonly port?: string;
  readonly name?: string;
}

const selector = ({ matchLabels }: { readonly matchLabels: Record<string, string> }) =>
  Object.entries(matchLabels)
    .map(([key, value]) => `${key}=${value}`)
    .join();
