import {
  annotations,
  type Key,
  type KubeObject,
  keyOf,
  labels,
  type Pod,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import type { Observed, ReadYourWrites } from '../../reconcile/index.ts';
import { podFacts } from '../pod/index.ts';

/** Without a heartbeat for so long an agent counts as gone (upstream's figure, as are all that read the annotation). */
const timeoutMs = 300_000;
/**
 * The heartbeat's time is another machine's, and a laptop sleeps: one that is old by our clock counts when this process has seen no other for so
 * long. Agents send one every 60 to 132 s.
 */
const settleMs = 150_000;

/** A heartbeat, and since when this process knows it. */
export interface SeenHeartbeat {
  readonly text: string;
  /** Monotonic. */
  readonly sinceMs: number;
}

/** A node and the guests that its agent would look after; plain data. */
export interface NodeObservation extends Observed {
  readonly node: KubeObject | undefined;
  /** Until its agent counts as gone; undefined: there was never a sign of one. Not above 0: it is gone. */
  readonly leftMs: number | undefined;
  readonly isSchedulable: boolean;
  /** On a node whose agent is gone: their guests cannot run any more, as far as the cache knows. */
  readonly lost: readonly VirtualMachineInstance[];
  /** There, too: keys of those whose pods may run. */
  readonly unproven: readonly Key[];
}

export interface ObserveDeps {
  readonly nodes: { get(key: Key): KubeObject | undefined };
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'list'>;
  readonly ownPods: Pick<ReadYourWrites<Pod>, 'list'>;
  readonly heartbeats: { of(node: string, text: string): SeenHeartbeat };
  readonly clock: Clock;
}

export function observeNode(key: Key, { nodes, vmis, ownPods, heartbeats, clock }: ObserveDeps): NodeObservation {
  const node = nodes.get(key);
  const now = clock.now();
  const text = node?.metadata.annotations?.[annotations.heartbeat];
  const leftMs = text === undefined ? undefined : leftOf(heartbeats.of(key, text), now, clock.monotonicMs());
  const isGone = node === undefined || (leftMs !== undefined && leftMs <= 0);
  const here = isGone ? vmis.list().filter((vmi) => isOn(vmi, key)) : [];
  const pods = here.length > 0 ? ownPods.list() : [];
  const lost = here.filter((vmi) => !pods.some((pod) => mayRun(pod, vmi)));
  return {
    key,
    uid: node?.metadata.uid ?? '',
    now,
    node,
    leftMs,
    isSchedulable: node?.metadata.labels?.[labels.schedulable] === 'true',
    lost,
    unproven: here.filter((vmi) => !lost.includes(vmi)).map(keyOf),
  };
}

function leftOf({ text, sinceMs }: SeenHeartbeat, now: Date, nowMs: number): number {
  const unchangedMs = nowMs - sinceMs;
  const ageMs = now.getTime() - Date.parse(text);
  const byItsClock = Number.isNaN(ageMs) ? Number.POSITIVE_INFINITY : timeoutMs - ageMs;
  return Math.min(timeoutMs - unchangedMs, Math.max(byItsClock, settleMs - unchangedMs));
}

/** With a guest that is, or may be, started there. */
function isOn({ metadata, status }: VirtualMachineInstance, node: string): boolean {
  const isThere = status?.nodeName === node || metadata.labels?.[labels.nodeName] === node;
  return isThere && (status?.phase === 'Running' || status?.phase === 'Scheduled');
}

/** Whatever its annotations say, which its owner may change; wherever it is: a guest that was on its way may have arrived on another node. */
export function mayRun(pod: Pod, { metadata }: VirtualMachineInstance): boolean {
  if (podFacts.controllerUid(pod) !== metadata.uid || podFacts.isFinal(pod)) return false;
  const statuses = pod.status?.containerStatuses ?? [];
  return statuses.length === 0 || statuses.some(({ state }) => state?.terminated === undefined);
}
