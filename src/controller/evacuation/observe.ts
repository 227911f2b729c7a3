import {
  annotations,
  isBeingDeleted,
  isFinal,
  isFinalMigration,
  isMigratable,
  isWaitingMigration,
  type Key,
  type KubeObject,
  keyOf,
  type Pod,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import type { Observed, ReadYourWrites } from '../../reconcile/index.ts';
import { podFacts } from '../pod/index.ts';

/** The parts of a Node that say whether it is to be emptied. */
export interface DrainedNode extends KubeObject {
  readonly spec?: {
    readonly unschedulable?: boolean;
    readonly taints?: readonly { readonly key: string; readonly effect: string }[];
  };
}

/**
 * On a node that was cordoned while guests were to leave it. The end of a cordon shows in nothing else, and it may come while no controller
 * runs; a mark on a node that never had a cordon stands, since pods are evicted from such nodes, too.
 */
export const cordonNote = 'virt-controller.kubevirt.io/cordoned-for-evacuation';

/** A node and the VMIs on it; plain data. */
export interface NodeObservation extends Observed {
  readonly node: DrainedNode | undefined;
  /** Shall leave, can, and no migration does it yet. */
  readonly candidates: readonly VirtualMachineInstance[];
  /** Shall leave and cannot: keys. */
  readonly stuck: readonly Key[];
  /** `to-note`: guests are marked to leave it, and it does not say yet that it has a cordon. `lifted`: it says so and has none any more. */
  readonly cordon: 'none' | 'to-note' | 'noted' | 'lifted';
  /** Marked to leave, and not on their way. */
  readonly marked: readonly VirtualMachineInstance[];
  /** Migrations that were to empty the node and have not begun. */
  readonly waiting: readonly VirtualMachineInstanceMigration[];
  /** Of those the ones whose VMI is not to leave the node any more, or has left it. */
  readonly needless: readonly VirtualMachineInstanceMigration[];
}

export interface ObserveDeps {
  readonly nodes: { get(key: Key): DrainedNode | undefined };
  /** Nodes whose cordon this process saw end: one that was short has left no note. */
  readonly lifted: Pick<ReadonlySet<Key>, 'has'>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly migrations: ReadYourWrites<VirtualMachineInstanceMigration>;
  readonly ownPods: ReadYourWrites<Pod>;
  readonly config: () => ControllerConfig;
  readonly clock: Clock;
}

/** From caches alone, with what this process wrote. */
export function observeNode(key: Key, deps: ObserveDeps): NodeObservation {
  const { nodes, vmis, migrations, config, clock } = deps;
  const node = nodes.get(key);
  const here = node ? vmis.list().filter(({ status }) => status?.nodeName === key) : [];
  const open = migrations.list().filter((each) => !isFinalMigration(each));
  const openOf = (vmi: VirtualMachineInstance) =>
    open.filter(({ metadata, spec }) => `${metadata.namespace}/${spec.vmiName}` === keyOf(vmi));
  const isDraining = node !== undefined && hasTaint(node, config().migrations.drainTaintKey);
  const leaving = here.filter((vmi) => (isDraining || isMarked(vmi)) && wantsToMove(vmi, config()));
  const waiting = open.filter((each) => isWaitingFor(each, key));
  return {
    key,
    uid: node?.metadata.uid ?? '',
    now: clock.now(),
    node,
    candidates: leaving.filter(
      (vmi) => isMigratable(vmi) && openOf(vmi).length === 0 && activePods(vmi, deps.ownPods) <= 1,
    ),
    stuck: leaving.filter((vmi) => !isMigratable(vmi)).map(keyOf),
    cordon: node ? cordonOf(node, { hasMarks: here.some(isMarked), isLifted: deps.lifted.has(key) }) : 'none',
    marked: here.filter((vmi) => isMarked(vmi) && openOf(vmi).every((each) => waiting.includes(each))),
    waiting,
    needless: waiting.filter(({ metadata, spec }) => {
      const vmi = vmis.get(`${metadata.namespace}/${spec.vmiName}`);
      return (
        vmi !== undefined &&
        !(here.some((each) => each.metadata.uid === vmi.metadata.uid) && (isDraining || isMarked(vmi)))
      );
    }),
  };
}

function cordonOf(
  { metadata, spec }: DrainedNode,
  { hasMarks, isLifted }: { readonly hasMarks: boolean; readonly isLifted: boolean },
): NodeObservation['cordon'] {
  const isNoted = metadata.annotations?.[cordonNote] !== undefined || (isLifted && hasMarks);
  if (isNoted) return spec?.unschedulable === true ? 'noted' : 'lifted';
  return spec?.unschedulable === true && hasMarks ? 'to-note' : 'none';
}

function hasTaint({ spec }: DrainedNode, key: string): boolean {
  return (spec?.taints ?? []).some((taint) => taint.key === key && taint.effect === 'NoSchedule');
}

function isMarked({ status }: VirtualMachineInstance): boolean {
  return status?.evacuationNodeName !== undefined && status.evacuationNodeName === status.nodeName;
}

/** Upstream: VMIMigratableOnEviction in pkg/util/migrations/migrations.go. */
function wantsToMove(vmi: VirtualMachineInstance, { evictionStrategy }: ControllerConfig): boolean {
  if (isFinal(vmi) || isBeingDeleted(vmi)) return false;
  const strategy = vmi.spec.evictionStrategy ?? evictionStrategy;
  return strategy === 'LiveMigrate' || (strategy === 'LiveMigrateIfPossible' && isMigratable(vmi));
}

/** No agent knows of it: its target pod may be made, and has no node yet, or is not ready. */
function isWaitingFor(migration: VirtualMachineInstanceMigration, node: Key): boolean {
  const { annotations: own, deletionTimestamp } = migration.metadata;
  const isBefore = isWaitingMigration(migration) || migration.status?.phase === 'Scheduling';
  return isBefore && own?.[annotations.evacuationMigration] === node && !deletionTimestamp;
}

function activePods({ metadata, status }: VirtualMachineInstance, ownPods: ReadYourWrites<Pod>): number {
  const recorded = status?.activePods ?? {};
  return ownPods.list().filter((pod) => {
    const isOwn = podFacts.controllerUid(pod) === metadata.uid && recorded[pod.metadata.uid ?? ''] !== undefined;
    return isOwn && podFacts.isActive(pod);
  }).length;
}
