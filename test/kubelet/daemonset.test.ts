import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { TestAuthority } from '../fixtures/certificates.ts';
import { eventually } from '../fixtures/eventually.ts';
import type { KubeApiserver } from '../fixtures/kube-apiserver.ts';
import { NodeMachine, nodeName } from './node-machine.ts';

/** Our DaemonSet in a real cluster of one node: its image, probes, volumes, token and device plugins under a real kubelet. */

const overlay = 'daemonset/overlays/tight-rights';
let authority: TestAuthority;
let machine: NodeMachine;

before(async () => {
  authority = await TestAuthority.make();
  const pair = await authority.issue({ commonName: 'kubevirt.io:system:node:virt-handler', usage: 'serverAuth' });
  machine = await NodeMachine.start((api) => install(api, pair));
});
after(async () => {
  await machine?.stop();
  await authority?.remove();
});

function install(api: KubeApiserver, { cert, key }: { cert: string; key: string }): void {
  api.kubectl('create', '-k', 'daemonset/prerequisites');
  api.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=30s');
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'kubevirt-virt-handler-server-certs' } };
  const tls = { ...secret, type: 'kubernetes.io/tls', stringData: { 'tls.crt': cert, 'tls.key': key } };
  api.kubectlStdin(JSON.stringify(tls), '-n', 'kubevirt', 'apply', '-f', '-');
  api.kubectl('apply', '-k', overlay);
}

test('the agent runs from its image with read-only root, its probes pass, and its node is labelled, schedulable and has devices', async () => {
  const pod = await machine.agentPod();
  assert.deepEqual(
    pod.status.containerStatuses.map(({ restartCount }: { restartCount: number }) => restartCount),
    [0],
  );
  await eventually(() => {
    const { labels, annotations } = machine.get('node', nodeName).metadata;
    assert.equal(labels['kubevirt.io/schedulable'], 'true', JSON.stringify(labels));
    assert.ok(annotations['kubevirt.io/heartbeat']);
    const golden = readFileSync('test/unit/agent/node-labels/hosts/real-nested-kvm/labels.txt', 'utf8');
    const wanted = golden.split('\n').filter(Boolean);
    const missing = wanted.filter((line) => `${line.split('=')[0]}=${labels[line.split('=')[0] ?? '']}` !== line);
    assert.deepEqual(missing, []);
  }, 60_000);
  console.log(machine.allocatable());
});
