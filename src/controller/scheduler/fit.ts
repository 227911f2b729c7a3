import { type KubeObject, type LabelRequirement, labelMatcher, type Pod, parseQuantity } from '../../api/index.ts';
import { podAffinity } from './pod-affinity.ts';

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute';
}

/** The parts of a core Node that placing a pod reads. */
export interface SchedulableNode extends KubeObject {
  readonly spec?: { readonly unschedulable?: boolean; readonly taints?: readonly Taint[] };
  readonly status?: { readonly allocatable?: Readonly<Record<string, string | number>> };
}

export type Placement =
  | { readonly kind: 'node'; readonly name: string }
  /** In the words of kube-scheduler: `0/2 nodes are available: …`. */
  | { readonly kind: 'none'; readonly message: string };

interface Toleration {
  readonly key?: string;
  readonly operator?: string;
  readonly value?: string;
  readonly effect?: string;
}

/**
 * The node with the most free memory among those that fit; names decide a tie. `usedBytes`: memory asked for by a node's pods.
 * `neighbours`: pods that are on nodes and have not ended.
 */
export function placePod(
  pod: Pod,
  nodes: readonly SchedulableNode[],
  usedBytes: (node: string) => number,
  neighbours: readonly Pod[] = [],
): Placement {
  const refusedBeside = podAffinity(pod, nodes, neighbours);
  const counts = new Map<string, number>();
  const fitting: { name: string; freeBytes: number }[] = [];
  for (const node of nodes) {
    const freeBytes = memoryBytes(node) - usedBytes(node.metadata.name);
    const reason = refusal(pod, node, freeBytes) ?? refusedBeside(node);
    if (reason === undefined) fitting.push({ name: node.metadata.name, freeBytes });
    else counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  fitting.sort((a, b) => b.freeBytes - a.freeBytes || (a.name < b.name ? -1 : 1));
  const [best] = fitting;
  if (best) return { kind: 'node', name: best.name };
  const reasons = [...counts].map(([reason, count]) => `${count} ${reason}`).sort();
  const detail = reasons.length > 0 ? reasons.join(', ') : 'there is no node';
  return { kind: 'none', message: `0/${nodes.length} nodes are available: ${detail}.` };
}

/** A node would take the pod by what its agent says of it, which comes a moment after agent and node: all labels that it lacks are its agent's. */
export function awaitsAgent(pod: Pod, nodes: readonly SchedulableNode[]): boolean {
  return nodes.some((node) => {
    const lacked = mismatchedLabels(pod, node);
    return lacked.length > 0 && lacked.every(([key]) => `.${key}`.includes('.kubevirt.io/'));
  });
}

/** Memory that the containers of a pod ask for. */
export function podMemoryBytes(pod: Pod): number {
  return pod.spec.containers.reduce((sum, { resources }) => {
    const requests = (resources as { requests?: Record<string, string | number> } | undefined)?.requests;
    return sum + (parseQuantity(requests?.memory) ?? 0);
  }, 0);
}

function memoryBytes(node: SchedulableNode): number {
  return parseQuantity(node.status?.allocatable?.memory) ?? Number.POSITIVE_INFINITY;
}

function refusal(pod: Pod, node: SchedulableNode, freeBytes: number): string | undefined {
  if (node.metadata.deletionTimestamp) return 'node(s) are being deleted';
  if (node.spec?.unschedulable) return 'node(s) were unschedulable';
  const [label] = mismatchedLabels(pod, node);
  if (label) return `node(s) didn't match Pod's node selector (${label.join('=')})`;
  if (!matchesAffinity(pod, node)) return "node(s) didn't match Pod's node affinity";
  const taint = (node.spec?.taints ?? []).find((found) => !isTolerated(found, pod));
  if (taint) return `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ''}}`;
  if (podMemoryBytes(pod) > freeBytes) return 'Insufficient memory';
  // Claims are of an API that this scheduler's server does not have.
  if (pod.spec.resourceClaims !== undefined) return 'node(s) had no driver that gives out resourceClaims';
  const device = missingDevice(pod, node);
  return device && `Insufficient ${device}`;
}

/** What a node of this scheduler has of its own accord: its agent makes these devices, and no kubelet counts them. */
const ownDevices = 'devices.kubevirt.io/';

/** An extended resource, as a GPU is one, that the node has none of. */
function missingDevice(pod: Pod, node: SchedulableNode): string | undefined {
  const asked = pod.spec.containers.flatMap(({ resources }) => {
    const { requests, limits } = (resources ?? {}) as { requests?: object; limits?: object };
    const all = Object.entries({ ...requests, ...limits } as Record<string, string>);
    return all.flatMap(([name, amount]) => (parseQuantity(amount) === 0 ? [] : [name]));
  });
  const isExtended = (name: string) =>
    name.includes('/') && !name.startsWith(ownDevices) && !/(?:^|\.)kubernetes\.io\//.test(name);
  return asked.find((name) => isExtended(name) && (parseQuantity(node.status?.allocatable?.[name]) ?? 0) <= 0);
}

function mismatchedLabels(pod: Pod, node: SchedulableNode): [key: string, value: string][] {
  const labels = node.metadata.labels ?? {};
  return Object.entries(pod.spec.nodeSelector ?? {}).filter(([key, value]) => labels[key] !== value);
}

function matchesAffinity(pod: Pod, node: SchedulableNode): boolean {
  const affinity = pod.spec.affinity as
    | {
        nodeAffinity?: {
          requiredDuringSchedulingIgnoredDuringExecution?: {
            nodeSelectorTerms?: { matchExpressions?: LabelRequirement[]; matchFields?: LabelRequirement[] }[];
          };
        };
      }
    | undefined;
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  if (!terms) return true;
  const labels = node.metadata.labels ?? {};
  const fields = { 'metadata.name': node.metadata.name };
  return terms.some(
    ({ matchExpressions = [], matchFields = [] }) =>
      matchExpressions.length + matchFields.length > 0 &&
      labelMatcher(matchExpressions)(labels) &&
      labelMatcher(matchFields)(fields),
  );
}

function isTolerated(taint: Taint, pod: Pod): boolean {
  if (taint.effect === 'PreferNoSchedule') return true;
  const tolerations = (pod.spec.tolerations as readonly Toleration[] | undefined) ?? [];
  return tolerations.some(({ key, operator = 'Equal', value = '', effect }) => {
    if (effect && effect !== taint.effect) return false;
    if (!key) return operator === 'Exists';
    return key === taint.key && (operator === 'Exists' || value === (taint.value ?? ''));
  });
}
