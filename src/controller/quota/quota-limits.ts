import {
  type Container,
  type KubeObject,
  type LabelSelector,
  type Pod,
  parseQuantity,
  resources,
  selects,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { isRecord, memberAt } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient, orMissing } from '../../kube/index.ts';

export interface LimitDeps {
  readonly client: Pick<KubeClient, 'get' | 'list'>;
  /** Namespaces in which each guest gets a limit of its CPUs, whatever quotas say. */
  readonly limitedNamespaces: LabelSelector | undefined;
  readonly signal: AbortSignal;
}

/** Of the memory that the pod asks for, where its namespace gives no other. */
const defaultRatio = 2;
const ratioLabel = 'alpha.kubevirt.io/auto-memory-limits-ratio';

/**
 * A namespace whose quota counts limits takes no pod without them: its launchers get some (upstream: doesVMIRequireAutoResourceLimits in
 * pkg/virt-controller/services/template.go). Quotas are asked for when a pod is made, and not watched. Rejects with KubeError.
 */
export async function withNeededLimits(
  pod: Pod,
  vmi: VirtualMachineInstance,
  { client, limitedNamespaces, signal }: LimitDeps,
): Promise<Pod> {
  const { namespace = '' } = vmi.metadata;
  const counted = await countedLimits(namespace, client, signal);
  const needsMemory = counted.has('limits.memory');
  const isAsked = needsMemory || limitedNamespaces !== undefined;
  const labels = isAsked ? await labelsOf(namespace, client, signal) : {};
  const needsCpu = counted.has('limits.cpu') || (limitedNamespaces !== undefined && selects(limitedNamespaces, labels));
  if (!needsMemory && !needsCpu) return pod;
  const limit = (container: Container): Container => {
    if (container.name !== 'compute') return container;
    const { requests = {}, limits = {} } = container.resources ?? {};
    const memory = Math.floor((parseQuantity(requests.memory) ?? 0) * ratioOf(labels));
    const needed = {
      ...(needsMemory && { memory: String(memory) }),
      ...(needsCpu && { cpu: String(threadsOf(vmi)) }),
    };
    return { ...container, resources: { ...container.resources, requests, limits: { ...needed, ...limits } } };
  };
  return { ...pod, spec: { ...pod.spec, containers: pod.spec.containers.map(limit) } };
}

async function countedLimits(
  namespace: string,
  client: Pick<KubeClient, 'list'>,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const quotas = await readable(
    orMissing(client.list<KubeObject>(resources.resourceQuotas, { namespace, signal })),
    undefined,
  );
  const hard = (quotas?.items ?? []).map((quota) => memberAt(quota, 'spec', 'hard'));
  return new Set(hard.flatMap((amounts) => (isRecord(amounts) ? Object.keys(amounts) : [])));
}

async function labelsOf(name: string, client: Pick<KubeClient, 'get'>, signal: AbortSignal) {
  const namespace = await getIfThere<KubeObject>(client, resources.namespaces, { name }, { signal });
  return namespace?.metadata.labels ?? {};
}

/** Without the right to read quotas a pod is made without limits; where one is needed the API server says so. */
async function readable<T>(question: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await question;
  } catch (error) {
    if (isKubeError(error, 'FORBIDDEN')) return otherwise;
    throw error;
  }
}

/** What is no number of at least 1 counts as not given. */
function ratioOf(labels: Readonly<Record<string, string>>): number {
  const ratio = Number(labels[ratioLabel] || Number.NaN);
  return Number.isFinite(ratio) && ratio >= 1 ? ratio : defaultRatio;
}

/** Of the guest and of its disks. */
function threadsOf({ spec: { domain } }: VirtualMachineInstance): number {
  const { cores, sockets, threads } = domain.cpu ?? {};
  const ofGuest = (cores || 1) * (sockets || 1) * (threads || 1);
  return ofGuest + (domain.ioThreads?.supplementalPoolThreadCount ?? 0);
}
