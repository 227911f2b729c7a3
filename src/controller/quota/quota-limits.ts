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
import { type Clock, isRecord, memberAt } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient, orMissing } from '../../kube/index.ts';

export interface LimitDeps {
  readonly client: Pick<KubeClient, 'get'>;
  readonly quotas: Pick<NamespaceQuotas, 'countedIn' | 'forget'>;
  /** Namespaces in which each guest gets a limit of its CPUs, whatever quotas say. */
  readonly limitedNamespaces: LabelSelector | undefined;
  readonly signal: AbortSignal;
}

const keptMs = 1_000;
const mostKept = 100;

/** What quotas count. They are asked for when a pod is made, and not watched; the pods of the second after an answer share it. */
export class NamespaceQuotas {
  readonly #client: Pick<KubeClient, 'list'>;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #kept = new Map<string, { readonly askedMs: number; readonly counted: ReadonlySet<string> }>();

  constructor({ client, clock }: { client: Pick<KubeClient, 'list'>; clock: Pick<Clock, 'monotonicMs'> }) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Names as `limits.cpu`, of all quotas of the namespace. Rejects with KubeError. */
  async countedIn(namespace: string, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const askedMs = this.#clock.monotonicMs();
    const kept = this.#kept.get(namespace);
    if (kept && askedMs - kept.askedMs < keptMs) return kept.counted;
    const question = this.#client.list<KubeObject>(resources.resourceQuotas, { namespace, signal });
    const quotas = await readable(orMissing(question), undefined);
    const hard = (quotas?.items ?? []).map((quota) => memberAt(quota, 'spec', 'hard'));
    const counted = new Set(hard.flatMap((amounts) => (isRecord(amounts) ? Object.keys(amounts) : [])));
    if (this.#kept.size >= mostKept) this.#kept.clear();
    this.#kept.set(namespace, { askedMs, counted });
    return counted;
  }

  /** After a pod was refused, maybe by a quota that is newer than the answer. */
  forget(namespace: string): void {
    this.#kept.delete(namespace);
  }
}

/** Of the memory that the pod asks for, where its namespace gives no other. */
const defaultRatio = 2;
const ratioLabel = 'alpha.kubevirt.io/auto-memory-limits-ratio';

/** Makes the pod with the limits that its namespace needs. Rejects with KubeError. */
export async function createWithLimits(
  pod: Pod,
  vmi: VirtualMachineInstance,
  deps: LimitDeps & { readonly client: Pick<KubeClient, 'create'> },
): Promise<Pod> {
  const limited = await withNeededLimits(pod, vmi, deps);
  try {
    return await deps.client.create(resources.pods, limited, { signal: deps.signal });
  } catch (error) {
    if (isKubeError(error, 'FORBIDDEN')) deps.quotas.forget(vmi.metadata.namespace ?? '');
    throw error;
  }
}

/**
 * A namespace whose quota counts limits takes no pod without them: its launchers get some (upstream: doesVMIRequireAutoResourceLimits in
 * pkg/virt-controller/services/template.go). Rejects with KubeError.
 */
export async function withNeededLimits(
  pod: Pod,
  vmi: VirtualMachineInstance,
  { client, quotas, limitedNamespaces, signal }: LimitDeps,
): Promise<Pod> {
  const { namespace = '' } = vmi.metadata;
  const counted = await quotas.countedIn(namespace, signal);
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
