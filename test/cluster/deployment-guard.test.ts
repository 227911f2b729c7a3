import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { operatorInstallation } from '../fixtures/deployment/operator-installation.ts';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** daemonset/ where virt-operator looks after KubeVirt already: a real kube-apiserver refuses what would change its installation. */

let cluster: KubeApiserver;

before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  cluster = await startKubeApiserver(assets, { bare: true });
  for (const object of operatorInstallation('kubevirt')) {
    cluster.kubectlStdin(JSON.stringify(object), 'create', '-f', '-');
  }
});
after(() => cluster?.stop());

interface Parts {
  readonly metadata: { readonly name: string };
  readonly spec?: unknown;
  readonly rules?: unknown;
}

/** All that tells an agent what it is and may do; labels and annotations of kubectl's own aside. */
function installation() {
  const read = (...args: string[]): Parts[] => JSON.parse(cluster.kubectl('get', '-o', 'json', ...args)).items;
  const kinds = [read('crd'), read('clusterrole', '-l', 'kubevirt.io'), read('daemonset', '-A')];
  return kinds.flat().map(({ metadata: { name }, spec, rules }) => ({ name, spec, rules }));
}

suite('beside virt-operator', () => {
  const ways: readonly [string, readonly string[]][] = [
    ['apply -k daemonset', ['apply', '-k', 'daemonset']],
    ['the overlay tight-rights', ['apply', '-k', 'daemonset/overlays/tight-rights']],
    ['a forced server-side apply', ['apply', '--server-side', '--force-conflicts', '-k', 'daemonset']],
    ['creating the prerequisites', ['create', '-k', 'daemonset/prerequisites']],
  ];
  for (const [what, args] of ways) {
    test(`${what} is refused, and leaves CRDs, rights and agent as they are`, () => {
      const was = installation();
      const { status, text } = cluster.run('kubectl', ...args);
      assert.equal(status, 1, text);
      assert.match(text, /field is immutable|already exists/);
      assert.deepEqual(installation(), was);
    });
  }

  test('install.sh says what to do, and makes nothing', () => {
    const was = installation();
    const { status, text } = cluster.run('bash', 'daemonset/install.sh');
    assert.equal(status, 1, text);
    assert.match(text, /KubeVirt is installed here \(daemonset kubevirt\/virt-handler \): .*replace\.sh/);
    assert.deepEqual(installation(), was);
  });
});
