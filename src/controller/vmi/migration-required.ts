import {
  type ConditionState,
  findCondition,
  type Interface,
  isMigrating,
  isSecondaryNetwork,
  type Network,
  type Pod,
  type VmiInterfaceStatus,
  type VmiStatus,
  withCondition,
  withoutCondition,
} from '../../api/index.ts';
import { type PodLinkStatus, podNetworkStatus } from '../pod/index.ts';
import { infoSourcesOf, multusSource } from './interface-status.ts';
import type { VmiFacts } from './observation.ts';

/** Multus may have a controller that changes the networks of a pod that runs; what it has not done by then it never does. */
const multusMs = 15_000;

const type = 'MigrationRequired';
const required: ConditionState = { type, status: 'True', reason: 'AutoMigrationDueToLiveUpdate' };
const pending: ConditionState = { type, status: 'False', reason: 'AutoMigrationPending' };

/**
 * Networks that only a new pod gives the guest: the workload updater migrates it then, and the target's agent takes the condition away
 * (upstream: pkg/network/migration/evaluator.go). One that says so stays until then.
 */
export function setMigrationRequired(seen: VmiFacts, status: VmiStatus, time: string): void {
  const { vmi, pod } = seen;
  if (!pod || isMigrating(vmi)) return;
  const conditions = status.conditions ?? [];
  const need = needOf(seen, pod);
  if (need === 'none') {
    if (findCondition(conditions, type)) status.conditions = withoutCondition(conditions, type);
    return;
  }
  if (findCondition(conditions, type)?.status === 'True') return;
  const isDue = need === 'now' || multusLeftMs(seen) === 0;
  status.conditions = withCondition(conditions, isDue ? required : pending, time);
}

/** What Multus has left of its time; undefined: it is not waited for. */
export function multusLeftMs({ vmi, pod, now }: Pick<VmiFacts, 'vmi' | 'pod' | 'now'>): number | undefined {
  const condition = findCondition(vmi.status?.conditions, type);
  const isAwaited = pod && vmi.status?.phase === 'Running' && !isMigrating(vmi);
  if (!isAwaited || condition?.status !== 'False') return undefined;
  const sinceMs = Date.parse(condition.lastTransitionTime ?? '');
  return Number.isNaN(sinceMs) ? 0 : Math.max(0, sinceMs + multusMs - now.getTime());
}

type Need = 'none' | 'pending' | 'now';

function needOf({ vmi }: VmiFacts, pod: Pod): Need {
  const links = podNetworkStatus(pod) ?? [];
  const namespace = vmi.metadata.namespace ?? '';
  const needs = (vmi.spec.networks ?? []).filter(isSecondaryNetwork).map((network): Need => {
    const iface = vmi.spec.domain?.devices?.interfaces?.find(({ name }) => name === network.name);
    const entry = vmi.status?.interfaces?.find(({ name }) => name === network.name);
    return iface ? needOfOne({ iface, entry, network, links, namespace }) : 'none';
  });
  return needs.find((need) => need !== 'none') ?? 'none';
}

interface One {
  readonly iface: Interface;
  readonly entry: VmiInterfaceStatus | undefined;
  readonly network: Network;
  readonly links: readonly PodLinkStatus[];
  readonly namespace: string;
}

function needOfOne({ iface, entry, network, links, namespace }: One): Need {
  const isAbsent = iface.state === 'absent';
  if (!entry) return isAbsent ? 'none' : iface.sriov ? 'now' : 'pending';
  const sources = infoSourcesOf(entry);
  // The guest has let go of it, and the pod has not.
  if (isAbsent && sources.includes(multusSource) && !sources.includes('domain')) return 'pending';
  const link = links.find((one) => one.link === entry.podInterfaceName);
  return !link || isAttachedTo(link, network, namespace) ? 'none' : 'now';
}

/** A name without a namespace is of the VMI's own. */
function isAttachedTo({ network: attached }: PodLinkStatus, { multus }: Network, namespace: string): boolean {
  const wanted = multus?.networkName ?? '';
  return attached === undefined || attached === wanted || attached === `${namespace}/${wanted}`;
}
