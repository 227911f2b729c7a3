import { type KubeObject, labels, resources } from '../../api/index.ts';
import { memberAt, rfc3339 } from '../../base/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import { defaultsFor } from './cluster-defaults.ts';

export interface StandaloneMachine {
  /** Each has all CPUs of the machine, and its part of the memory. */
  readonly nodes: readonly NodeIdentity[];
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

export interface NodeIdentity {
  readonly nodeName: string;
  readonly hostIp: string;
}

/** Namespace of the KubeVirt object, as upstream's manifests have it. */
export const kubevirtNamespace = 'kubevirt';

/** What a cluster has before the first VMI: namespaces, the KubeVirt object, the nodes. Leaves alone what users changed. */
export async function ensureNodeObjects(client: KubeClient, facts: StandaloneMachine, now: Date): Promise<void> {
  for (const name of ['default', kubevirtNamespace]) {
    await createIfMissing(client, resources.namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  }
  const nodes = facts.nodes.map((node) => ensureNode(client, facts, node, now));
  await Promise.all([...nodes, ensureKubeVirt(client, facts)]);
}

type Type = (typeof resources)[keyof typeof resources];

async function createIfMissing(client: KubeClient, type: Type, object: KubeObject): Promise<void> {
  try {
    await client.create(type, object);
  } catch (error) {
    if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
  }
}

async function ensureNode(client: KubeClient, facts: StandaloneMachine, node: NodeIdentity, now: Date): Promise<void> {
  const { architecture } = facts;
  const { nodeName } = node;
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
  await client.patch(resources.nodes, { name: nodeName }, { status: nodeStatus(facts, node, now) }, 'merge', {
    subresource: 'status',
  });
}

function nodeStatus(facts: StandaloneMachine, { nodeName, hostIp }: NodeIdentity, now: Date): object {
  const devices = Object.fromEntries(
    ['kvm', 'tun', 'vhost-net'].map((name) => [
      `devices.kubevirt.io/${name}`,
      name === 'kvm' && facts.kvm === 'fails' ? '0' : '1k',
    ]),
  );
  const capacity = {
    cpu: String(facts.cpus),
    memory: `${Math.floor(facts.memoryBytes / facts.nodes.length / 1024)}Ki`,
    pods: '110',
    ...devices,
  };
  const time = rfc3339(now);
  return {
    capacity,
    allocatable: capacity,
    addresses: [
      { type: 'InternalIP', address: hostIp },
      { type: 'Hostname', address: nodeName },
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

/** Plugs of CPU and memory move a guest only where updates may. Harmless when there is one node again: nothing can move then. */
function updatesOf(nodes: number, kubevirt: KubeObject): object {
  const isSet = memberAt(kubevirt, 'spec', 'workloadUpdateStrategy') !== undefined;
  return nodes > 1 && !isSet ? { workloadUpdateStrategy: { workloadUpdateMethods: ['LiveMigrate'] } } : {};
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
  const kubevirt = await client.get<KubeObject>(resources.kubevirts, ref);
  const kept = memberAt(kubevirt, 'spec', 'configuration');
  // A bridge in place of the pod's own link takes a kernel with dummy links; and a guest behind it cannot move.
  const network = memberAt(kept, 'network') ?? { defaultNetworkInterface: 'masquerade' };
  const { configuration, annotations } = defaultsFor(facts.nodes.length, kubevirt);
  const change = {
    metadata: { annotations },
    spec: {
      ...updatesOf(facts.nodes.length, kubevirt),
      configuration: { developerConfiguration, network, ...configuration },
    },
  };
  await client.patch(resources.kubevirts, ref, change, 'merge');
  const status = { status: { phase: 'Deployed', defaultArchitecture: facts.architecture } };
  await client.patch(resources.kubevirts, ref, status, 'merge', { subresource: 'status' });
}
