import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { eventually } from '../fixtures/eventually.ts';
import type { NodeMachine } from '../kubelet/node-machine.ts';

/** What virt-operator of v1.9.0 makes of the agent: its flags, folders and secrets; its image is the one with both programs. */
const folders = [
  { name: 'libvirt-runtimes', host: '/var/run/kubevirt-libvirt-runtimes' },
  { name: 'virt-share-dir', host: '/var/run/kubevirt', mountPropagation: 'Bidirectional' },
  { name: 'virt-private-dir', host: '/var/run/kubevirt-private' },
  { name: 'kubelet-pods', host: '/var/lib/kubelet/pods', mountPath: '/pods' },
  { name: 'kubelet', host: '/var/lib/kubelet', mountPropagation: 'HostToContainer' },
  { name: 'node-labeller', host: '/var/lib/kubevirt-node-labeller' },
];

/** This cluster has one key pair for agents. */
const certificates = ['client', 'server', 'migrationserver', 'vsockclient'].map((purpose) => ({
  name: `${purpose}-certs`,
  mountPath: `/etc/virt-handler/${purpose}certificates`,
}));

const args = [
  ...['--port', '8443', '--hostname-override', '$(NODE_NAME)', '--pod-ip-address', '$(MY_POD_IP)'],
  ...['--max-metric-requests', '3', '--console-server-port', '8186', '--vmstats-server-port', '8187'],
  ...['--graceful-shutdown-seconds', '315', '-v', '4'],
];

const fromPod = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } });

/** Both programs: scripts/upstream-parts.mjs. */
const image = 'localhost/upstream:1';
const labels = { 'kubevirt.io': 'virt-handler' };

function daemonSet(): object {
  const probe = { httpGet: { scheme: 'HTTPS', port: 8443, path: '/healthz' }, timeoutSeconds: 10 };
  const container = {
    name: 'virt-handler',
    image,
    command: ['virt-handler'],
    args,
    env: [fromPod('NODE_NAME', 'spec.nodeName'), fromPod('MY_POD_IP', 'status.podIP')],
    securityContext: { privileged: true },
    livenessProbe: { ...probe, initialDelaySeconds: 15, periodSeconds: 45 },
    readinessProbe: { ...probe, periodSeconds: 2 },
    volumeMounts: [
      ...folders.map(({ name, host, mountPath = host, mountPropagation = 'None' }) => ({
        name,
        mountPath,
        mountPropagation,
      })),
      ...certificates,
    ],
  };
  const spec = {
    serviceAccountName: 'kubevirt-handler',
    hostPID: true,
    terminationGracePeriodSeconds: 30,
    containers: [container],
    volumes: [
      ...folders.map(({ name, host }) => ({ name, hostPath: { path: host } })),
      ...certificates.map(({ name }) => ({ name, secret: { secretName: 'kubevirt-virt-handler-server-certs' } })),
    ],
  };
  const metadata = { name: 'virt-handler', namespace: 'kubevirt', labels };
  const template = { metadata: { labels: { ...labels, 'prometheus.kubevirt.io': 'true' } }, spec };
  return { apiVersion: 'apps/v1', kind: 'DaemonSet', metadata, spec: { selector: { matchLabels: labels }, template } };
}

/** Kinds that upstream's agent waits for and ours does not ask for, as empty shells. */
const kinds = [['plugin.kubevirt.io', 'v1alpha1', 'Plugin', 'Cluster']] as const;

/** Upstream's agent waits for them. */
export const shells: readonly object[] = kinds.map(shellOf);

function shellOf([group, version, kind, scope]: (typeof kinds)[number]): object {
  const singular = kind.toLowerCase();
  const plural = `${singular}s`;
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  const versions = [{ name: version, served: true, storage: true, schema }];
  const spec = { group, scope, names: { kind, singular, plural }, versions };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec,
  };
}

/** What upstream's agent needs of a cluster beside what ours does. */
export function prepareForUpstream(machine: NodeMachine): void {
  for (const shell of shells) machine.api.kubectlStdin(JSON.stringify(shell), 'create', '-f', '-');
  for (const { host } of folders) mkdirSync(host, { recursive: true });
}

const own = ['-n', 'kubevirt'] as const;
const replacement = 'daemonset/overlays/replace-upstream/kubevirt.yaml';
const firstPatch = 'go-template={{(index .spec.customizeComponents.patches 0).patch}}';

/** One installation in place of the other; resolves when its agent is ready. */
async function reinstall(machine: NodeMachine, install: () => void): Promise<void> {
  machine.api.kubectl('delete', 'daemonset', ...own, 'virt-handler', '--ignore-not-found');
  await eventually(() => {
    const { items } = machine.get('pods', ...own, '-l', 'kubevirt.io=virt-handler');
    assert.equal(items.length, 0, 'the agent before is still there');
  }, 60_000);
  install();
  await machine.agentPod();
}

export const installUpstream = (machine: NodeMachine): Promise<void> =>
  reinstall(machine, () => machine.api.kubectlStdin(JSON.stringify(daemonSet()), 'create', '-f', '-'));

export const installOurs = (machine: NodeMachine, overlay: string): Promise<void> =>
  reinstall(machine, () => machine.api.kubectl('apply', '-k', overlay));

async function rollOut(machine: NodeMachine): Promise<void> {
  machine.api.kubectl('rollout', 'status', ...own, 'daemonset/virt-handler', '--timeout=120s');
  await machine.agentPod();
}

/** What virt-operator makes of its DaemonSet after `replace.sh`: volumes, flags and rights stay upstream's. */
export async function replaceByOurs(machine: NodeMachine): Promise<void> {
  const patch = machine.api.kubectl('create', '--dry-run=client', '-f', replacement, '-o', firstPatch);
  machine.api.kubectl('patch', 'daemonset', ...own, 'virt-handler', '--type=strategic', '-p', patch);
  await rollOut(machine);
}

/** And after `restore.sh`. */
export async function restoreUpstream(machine: NodeMachine): Promise<void> {
  machine.api.kubectlStdin(JSON.stringify(daemonSet()), 'replace', '-f', '-');
  await rollOut(machine);
}
