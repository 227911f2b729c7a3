import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { parseControllerFlags } from '../../../src/controller/index.ts';

/** The manifests of virt-controller fit the program, those of the agent, and the image. */

const read = (file: string) =>
  parseAllDocuments(readFileSync(path.join('daemonset', file), 'utf8')).map((item) => item.toJS());
const [deployment] = read('controller/base/deployment.yaml');
const pod = deployment.spec.template.spec;
const [container] = pod.containers;

test('the arguments parse, and the certificate is where the program looks for it', () => {
  const flags = parseControllerFlags(container.args);
  assert.equal(flags?.server?.port, 8443);
  const folders = container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath);
  const { certFile = '', keyFile = '' } = flags?.server?.keyPair ?? {};
  assert.equal(path.dirname(certFile), path.dirname(keyFile));
  assert.deepEqual(folders, [path.dirname(certFile), flags?.exportCaDir, flags?.backupCaDir]);
  assert.equal(container.args[1], 'quay.io/kubevirt/virt-launcher:v1.9.0');
});

test('two replicas, as an ordinary user without rights on the node; probes ask what is served', () => {
  assert.equal(deployment.spec.replicas, 2);
  assert.deepEqual([pod.securityContext.runAsNonRoot, container.securityContext.capabilities.drop], [true, ['ALL']]);
  const paths = ['startupProbe', 'livenessProbe', 'readinessProbe'].map((probe) => container[probe].httpGet.path);
  assert.deepEqual(paths, ['/leader', '/healthz', '/leader']);
});

test('the budget, the selector and the Deployment mean the same pods, which upstream’s never are', () => {
  const [budget] = read('controller/base/disruption-budget.yaml');
  assert.deepEqual(budget.spec.selector, deployment.spec.selector);
  assert.equal(deployment.spec.selector.matchLabels['virt-controller.kubevirt.io/controller'], 'typescript');
});

test('image and service for metrics are those of the agent', () => {
  const [{ images: agents }] = read('base/kustomization.yaml');
  const [{ images }] = read('controller/base/kustomization.yaml');
  assert.deepEqual(images, [{ ...agents[0], name: 'virt-controller' }]);
  assert.deepEqual(read('controller/base/metrics-service.yaml'), read('base/metrics-service.yaml'));
});

test('exporter pods run the image of the controller, which has their program', () => {
  const [{ replacements }] = read('controller/base/kustomization.yaml');
  const [{ source, targets }] = replacements;
  assert.equal(source.fieldPath, 'spec.template.spec.containers.0.image');
  const [, index] = /^spec\.template\.spec\.containers\.0\.args\.(\d+)$/.exec(targets[0].fieldPaths[0]) ?? [];
  assert.deepEqual(container.args.slice(Number(index) - 1, Number(index) + 1), ['--exporter-image', container.image]);
  const named = /^const programs = .*'virt-exportserver'/m.exec(readFileSync('image/root.mjs', 'utf8'));
  assert.ok(named, 'image/root.mjs puts virt-exportserver into the image');
});
