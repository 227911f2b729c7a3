import { annotations, type ConditionState, cpuChangeFailed, isMigrationTarget, labels } from '../../../../api/index.ts';
import type { Facts } from '../facts.ts';
import { type Rule, rest, type VmiPatch } from '../rule.ts';
import { hasLostItsMemory, isSettled, migrationUidOf, stageOf, stateOf } from './target-view.ts';

const hotPlugLabels = {
  [labels.podCpuLimit]: null,
  [labels.podMemoryRequest]: null,
  [labels.memoryOverheadRatio]: null,
};

/** The guest lives here and nothing ends it: then its migration is brought to its end, and never in the way of its own. */
const isAtHome = (facts: Facts) =>
  facts.domainState.kind === 'alive' &&
  !facts.final &&
  facts.ending === undefined &&
  !hasLostItsMemory(facts) &&
  migrationUidOf(facts) !== '' &&
  Boolean(stateOf(facts)?.endTimestamp);

function finalizedOf(facts: Facts) {
  const stage = stageOf(facts);
  return stage?.kind === 'finalized' ? stage.finalized : undefined;
}

const cpusFailed: ConditionState = {
  type: cpuChangeFailed,
  status: 'True',
  reason: 'CPU Hotplug Failed',
  message: 'the launcher could not change the vCPUs: the event HotPlugFailed says why',
};

const memoryFailed: ConditionState = {
  type: 'HotMemoryChange',
  status: 'False',
  reason: 'Memory Hotplug Failed',
  message: 'memory hotplug failed, the VM configuration is not supported',
};

/**
 * What the finalisation did, written down (pkg/virt-handler/migration-target.go). A CPU change is over however it went; that it has failed is a
 * condition of another type, for upstream's controller takes HotVCPUChange, whatever its status, for a migration that is not over. Ours does
 * not ask for a migration again then; upstream's moves a guest whose CPUs cannot be plugged in for ever.
 */
function completedPatch(facts: Facts): VmiPatch {
  const { cpus, memory } = finalizedOf(facts) ?? {};
  const domain = (facts.vmi?.spec?.domain ?? {}) as {
    cpu?: { sockets?: number; cores?: number; threads?: number };
    memory?: { guest?: unknown };
  };
  const { sockets, cores, threads } = domain.cpu ?? {};
  const tracking = facts.vmi?.status?.changedBlockTracking as { state?: unknown } | undefined;
  const failures = [...(cpus === 'failed' ? [cpusFailed] : []), ...(memory === 'failed' ? [memoryFailed] : [])];
  return {
    labels: hotPlugLabels,
    status: {
      migratedVolumes: null,
      migrationState: { completed: true },
      ...(cpus === 'done' && { currentCPUTopology: { sockets, cores, threads } }),
      ...(memory === 'done' && { memory: { guestRequested: domain.memory?.guest } }),
      // The target's disks have no checkpoints: they are made again.
      ...(tracking?.state === 'Enabled' && { changedBlockTracking: { state: 'Initializing' } }),
    },
    removeConditions: ['HotVCPUChange', 'VolumesChange', ...(memory === 'failed' ? [] : ['HotMemoryChange'])],
    ...(failures.length > 0 && { setConditions: failures }),
  };
}

/**
 * A guest that came to this node and whose VMI is this node's: the migration is finished and its traces go. These come before
 * the default rules, which serve the guest as any other: one that ends, is deleted or is lost gets its phase from them.
 */
export const arrivedRules: readonly Rule[] = [
  {
    name: 'arrived-streams-over',
    why: 'The guest is on this node and its migration is over, so the streams that it came through are closed.',
    when: (facts) => isSettled(facts) && facts.observation.migrationProxies.targetPorts !== undefined,
    plan: ({ uid }) => ({ steps: [{ step: 'closeTargetProxies', uid }], requeueAfterMs: 0 }),
  },
  {
    name: 'arrived-label-dropped',
    why: 'The migration to this node is over, so the VMI no longer asks for this node; from now on it is like any other here.',
    when: (facts) => isSettled(facts) && !facts.final,
    plan: (facts) => ({
      steps: [],
      patch: {
        labels: { [labels.migrationTargetNodeName]: null },
        ...(stateOf(facts)?.failed !== true && { annotations: { [annotations.createMigrationTarget]: null } }),
      },
      requeueAfterMs: 0,
    }),
  },
  {
    name: 'arrived-finalized',
    why: 'The launcher has finished the migration on its side, which is written: the migration has succeeded.',
    when: (facts) => isAtHome(facts) && !isSettled(facts) && finalizedOf(facts) !== undefined,
    plan: (facts) => ({ steps: [], patch: completedPatch(facts), healthy: true, requeueAfterMs: 0 }),
  },
  {
    name: 'arrived-finalize',
    why: 'The guest runs on this node; its launcher does what is left to do after a migration.',
    when: (facts) => isAtHome(facts) && !isSettled(facts),
    plan: (facts) => ({
      steps: [{ step: 'finalizeMigration', uid: facts.uid, migrationUid: migrationUidOf(facts) }],
      requeueAfterMs: 0,
    }),
  },
];

/**
 * A VMI that waits for a guest from another cluster or namespace, and is not asked to receive it now: nothing is done until a migration of
 * it is completed.
 */
export const waitingRules: readonly Rule[] = [
  {
    name: 'waiting-for-sync-failed',
    why: 'The migration that this VMI waited for has failed, and the VMI is left as it is for the controller.',
    when: (facts) => isWaiting(facts) && facts.domainState.kind === 'gone' && stateOf(facts)?.failed === true,
    plan: () => rest,
  },
  {
    name: 'waiting-for-sync',
    why: 'The VMI waits for a guest and its launcher here has none, so its phase says that it waits.',
    when: (facts) => isWaiting(facts) && isSettled(facts) && hasNoGuestYet(facts),
    plan: () => ({ steps: [], phase: 'WaitingForSync', requeueAfterMs: 0 }),
  },
];

const isWaiting = ({ vmi, deleting, final }: Facts) =>
  vmi !== undefined && isMigrationTarget(vmi) && !deleting && !final;

const hasNoGuestYet = ({ phase, domainState }: Facts) =>
  domainState.kind === 'gone' &&
  (phase === 'Running' || (phase === 'Scheduled' && domainState.proof === 'launcher-dead'));
