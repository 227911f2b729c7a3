import { type KubeObject, labels, resources } from '../../api/index.ts';
import { memberAt, rfc3339 } from '../../base/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';

export interface StandaloneMachine {
  readonly nodeName: string;
  readonly hostIp: string;
  readonly cpus: number;
  readonly memoryBytes: number;
  /** Kubernetes' name: `amd64`. */
  readonly architecture: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  readonly bootId: string;
  /** Do guests run on KVM here? */
  readonly kvm: 'works' | 'fails';
}

/** Namespace of the KubeVirt object, as upstream's manifests have it. */
export const kubevirtNamespace = 'kubevirt';

/** What a cluster has before the first VMI: namespaces, the KubeVirt object, this node. Leaves alone what users changed. */
export async function ensureNodeObjects(client: KubeClient, facts: StandaloneMachine, now: Date): Promise<void> {
  for (const name of ['default', kubevirtNamespace]) {
    await createIfMissing(client, resources.namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  }
  await Promise.all([ensureNode(client, facts, now), ensureKubeVirt(client, facts)]);
}

type Type = (typeof resources)[keyof typeof resources];

async function createIfMissing(client: KubeClient, type: Type, object: KubeObject): Promise<void> {
  try {
    await client.create(type, object);
  } catch (error) {
    if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
  }
}

async function ensureNode(client: KubeClient, facts: StandaloneMachine, now: Date): Promise<void> {
  const { nodeName, architecture } = facts;
  const nodeLabels = {
    'kubernetes.io/hostname': nodeName,
    'kubernetes.io/arch': architecture,
    'kubernetes.io/os': 'linux',
  };
  // The agent sets this label to what is true once it runs.
  const initial = { ...nodeLabels, [labels.schedulable]: 'true' };
  await createIfMissing(client, resources.nodes, {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: nodeName, labels: initial },
  });
  await client.patch(resources.nodes, { name: nodeName }, { metadata: { labels: nodeLabels } }, 'merge');
  await client.patch(resources.nodes, { name: nodeName }, { status: nodeStatus(facts, now) }, 'merge', {
    subresource: 'status',
  });
}

function nodeStatus(facts: StandaloneMachine, now: Date): object {
  const devices = Object.fromEntries(
    ['kvm', 'tun', 'vhost-net'].map((name) => [
      `devices.kubevirt.io/${name}`,
      name === 'kvm' && facts.kvm === 'fails' ? '0' : '1k',
    ]),
  );
  const capacity = {
    cpu: String(facts.cpus),
    memory: `${Math.floor(facts.memoryBytes / 1024)}Ki`,
    pods: '110',
    ...devices,
  };
  const time = rfc3339(now);
  return {
    capacity,
    allocatable: capacity,
    addresses: [
      { type: 'InternalIP', address: facts.hostIp },
      { type: 'Hostname', address: facts.nodeName },
    ],
    conditions: [
      {
        type: 'Ready',
        status: 'True',
        reason: 'VirtNodeReady',
        message: 'the pod runner is up',
        lastHeartbeatTime: time,
        lastTransitionTime: time,
      },
    ],
    nodeInfo: {
      architecture: facts.architecture,
      bootID: facts.bootId,
      kernelVersion: facts.kernelVersion,
      kubeletVersion: 'virt-node',
      operatingSystem: 'linux',
      osImage: facts.osImage,
    },
  };
}

/** `Root`: launchers run as root here, in namespaces of their own; QEMU drops its rights. */
async function ensureKubeVirt(client: KubeClient, facts: StandaloneMachine): Promise<void> {
  const ref = { name: 'kubevirt', namespace: kubevirtNamespace };
  await createIfMissing(client, resources.kubevirts, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'KubeVirt',
    metadata: { ...ref },
    spec: {
      configuration: {
        developerConfiguration: { featureGates: ['Root', 'HotplugVolumes'] },
        architectureConfiguration: { amd64: { ovmfPath: '/usr/share/OVMF' } },
      },
    },
  } as KubeObject);
  const developerConfiguration = { useEmulation: facts.kvm === 'fails' };
  const kept = memberAt(await client.get(resources.kubevirts, ref), 'spec', 'configuration');
  // A bridge in place of the pod's own link takes a kernel with dummy links; and a guest behind it cannot move.
  const network = memberAt(kept, 'network') ?? { defaultNetworkInterface: 'masquerade' };
  // CPUs and memory come to a guest with a migration, and there is no other node: a change waits for the next start, and the VM says so.
  const vmRolloutStrategy = memberAt(kept, 'vmRolloutStrategy') ?? 'Stage';
  const change = { spec: { configuration: { developerConfiguration, network, vmRolloutStrategy } } };
  await client.patch(resources.kubevirts, ref, change, 'merge');
  const status = { status: { phase: 'Deployed', defaultArchitecture: facts.architecture } };
  await client.patch(resources.kubevirts, ref, status, 'merge', { subresource: 'status' });
}
