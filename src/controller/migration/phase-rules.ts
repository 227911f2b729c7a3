import { findCondition, isBeingDeleted, labels, type MigrationPriority, migrationRefusal } from '../../api/index.ts';
import { podFacts } from '../pod/index.ts';
import {
  hasHotplugVolumes,
  inPhaseMs,
  limitMs,
  ownState,
  pendingMs,
  phaseOf,
  targetPod,
  utilityVolumesOf,
  whyUnschedulable,
} from './facts.ts';
import { failsWithPod } from './failure-rules.ts';
import {
  does,
  type Facts,
  fails,
  goesTo,
  type MigrationPlan,
  type MigrationRule,
  unschedulableCondition,
  utilityCondition,
  waits,
} from './plan.ts';

const unschedulableSeconds = 300;
const pendingSeconds = 900;
/** The target's agent has said nothing: nothing has moved yet, and nothing else can begin. */
const preparationMs = 300_000;
const recheckMs = 60_000;
const otherPodsMs = 5_000;
const missingPodMs = 1_000;

const limitAnnotation = (name: string) => `kubevirt.io/migration${name}TimeoutSeconds`;

const isNew = (facts: Facts) => phaseOf(facts) === '';
const isPending = (facts: Facts) => phaseOf(facts) === 'Pending';
const isIn = (facts: Facts, ...phases: string[]) => phases.includes(phaseOf(facts));

/** By upstream's priority of its queue (getRequeueDelayForPriority in pkg/virt-controller/watch/migration/migration.go). */
const limitPauses: Readonly<Record<MigrationPriority, number>> = {
  'system-critical': 1_000,
  'user-triggered': 3_000,
  'system-maintenance': 5_000,
};

function waitsForRoom({ migration }: Facts): MigrationPlan {
  return waits(limitPauses[migration.spec.priority ?? 'system-maintenance'] ?? limitPauses['system-maintenance']);
}

/** The node that the migration or the VMI insists on is the one that the guest is on. */
function insistsOnSource({ migration, vmi, nodeLabels }: Facts): boolean {
  const host = nodeLabels['kubernetes.io/hostname'] ?? vmi?.status?.nodeName;
  const wanted = { ...migration.spec.addedNodeSelector, ...vmi?.spec.nodeSelector }['kubernetes.io/hostname'];
  return wanted !== undefined && wanted === host;
}

const beginRules: readonly MigrationRule[] = [
  {
    name: 'not-admitted',
    why: 'Label and finalizer are stored before anything of the migration exists outside of it.',
    when: (facts) =>
      isNew(facts) && facts.migration.metadata.labels?.[labels.migrationVmi] !== facts.migration.spec.vmiName,
    plan: () => ({ steps: [], change: { kind: 'admit' } }),
  },
  {
    name: 'another-in-flight',
    why: 'Another migration of this VMI is under way: this one is refused.',
    when: (facts) => isNew(facts) && facts.rival !== undefined,
    plan: ({ rival, vmi }) => {
      const name = rival?.name ?? '';
      const text = `in-flight migration detected. Active migration job (${name}) is currently already in progress for VMI ${vmi?.metadata.name}.`;
      return fails('InFlightMigration', text);
    },
  },
  {
    name: 'not-migratable',
    why: 'The VMI says that it cannot migrate: the migration is refused.',
    when: ({ vmi, ...facts }) =>
      vmi !== undefined &&
      phaseOf(facts) in { '': 0, Pending: 0 } &&
      migrationRefusal(vmi) !== undefined &&
      facts.target.kind === 'none',
    plan: ({ vmi }) => fails('NotMigratable', (vmi && migrationRefusal(vmi)) ?? ''),
  },
  {
    name: 'accepted',
    why: 'Nothing speaks against the migration; its target pod is made as soon as limits allow.',
    when: isNew,
    plan: () => goesTo('Pending'),
  },
];

const pendingRules: readonly MigrationRule[] = [
  {
    name: 'in-back-off',
    why: 'Migrations that were to empty the node have failed for this VMI: the next one waits, longer each time.',
    when: (facts) => isPending(facts) && facts.target.kind === 'none' && facts.backoffMs > 0,
    plan: ({ backoffMs }) => {
      const message = `vmi in migration backoff, it is tried again in ${Math.ceil(backoffMs / 1_000)} s`;
      const note = { step: 'noteOnVmi', type: 'Warning', reason: 'MigrationBackoff', message } as const;
      return { ...does([note]), requeueAfterMs: backoffMs };
    },
  },
  {
    name: 'target-is-source',
    why: 'The migration asks for the very node that the guest is on: it is refused.',
    when: (facts) => isPendingWithout(facts) && insistsOnSource(facts),
    plan: ({ vmi }) =>
      fails(
        'TargetIsSource',
        `the VMI is on node ${vmi?.status?.nodeName} already, and the migration asks for that node`,
      ),
  },
  {
    name: 'utility-volumes-too-long',
    why: 'Volumes that were plugged in for a backup are still there: the migration has waited for them long enough.',
    when: (facts) => isPending(facts) && hasUtilityVolumes(facts) && inPhaseMs(facts) >= utilityLimitMs(facts),
    plan: (facts) => failsWithPod(facts, 'UtilityVolumes', `Migration failed: ${utilityMessage(facts)}`),
  },
  {
    name: 'utility-volumes',
    why: 'Volumes are plugged in for a backup or the like: the migration waits until they are gone.',
    when: (facts) => isPending(facts) && hasUtilityVolumes(facts),
    plan: (facts) => ({
      steps: [],
      change: {
        kind: 'condition',
        condition: {
          type: utilityCondition,
          status: 'True',
          reason: 'UtilityVolumesPresent',
          message: utilityMessage(facts),
        },
      },
      requeueAfterMs: Math.max(1_000, utilityLimitMs(facts) - inPhaseMs(facts)),
    }),
  },
  {
    name: 'hot-plugged-volumes',
    why: 'The guest has volumes that were plugged in while it ran, which this controller cannot bring to another node yet.',
    when: (facts) => isPendingWithout(facts) && hasHotplugVolumes(facts),
    plan: (facts) =>
      failsWithPod(
        facts,
        'HotplugVolumes',
        'the VMI has hot-plugged volumes, which this controller cannot move yet: unplug them first',
      ),
  },
];

const waitingRules: readonly MigrationRule[] = [
  {
    name: 'target-not-shown-yet',
    why: 'The API server has the target pod, the cache does not show it yet: it is waited for.',
    when: ({ target }) => target.kind === 'unseen',
    plan: () => waits(missingPodMs),
  },
  {
    name: 'vmi-not-running',
    why: 'The guest does not run yet; it can only move then.',
    when: (facts) => isPendingWithout(facts) && facts.vmi?.status?.phase !== 'Running',
    plan: () => waits(recheckMs),
  },
  {
    name: 'source-pod-missing',
    why: 'The pod that the guest is in is not known yet.',
    when: (facts) => isPendingWithout(facts) && facts.sourcePod === undefined,
    plan: () => waits(missingPodMs),
  },
  {
    name: 'another-has-begun',
    why: 'Another migration of this VMI has begun: this one waits for its end.',
    when: (facts) => isPendingWithout(facts) && facts.rival?.hasState === true,
    plan: () => waits(otherPodsMs),
  },
  {
    name: 'other-pods-left',
    why: 'A pod of an earlier migration of this VMI has not ended: it is waited for.',
    when: (facts) => isPendingWithout(facts) && facts.activePods > 1,
    plan: () => waits(otherPodsMs),
  },
  {
    name: 'cluster-limit',
    why: 'As many migrations as the cluster allows at once are under way (parallelMigrationsPerCluster).',
    when: (facts) => isPendingWithout(facts) && facts.running.cluster >= facts.config.migrations.perCluster,
    plan: waitsForRoom,
  },
  {
    name: 'node-limit',
    why: 'As many migrations as may leave one node at once are under way (parallelOutboundMigrationsPerNode).',
    when: (facts) => isPendingWithout(facts) && facts.running.outbound >= facts.config.migrations.perNode,
    plan: waitsForRoom,
  },
  {
    name: 'target-cannot-be-made',
    why: 'No target pod can be made from this VMI, its node and the configuration: the migration has failed.',
    when: (facts) => isPendingWithout(facts) && facts.newPod().kind === 'problem',
    plan: ({ newPod }) => {
      const made = newPod();
      return fails(
        'TargetPodCannotBeMade',
        made.kind === 'problem' ? `failed to render launch manifest: ${made.problem}` : '',
      );
    },
  },
  {
    name: 'no-target-yet',
    why: 'There is room for the migration: the pod that the guest moves to is made.',
    when: isPendingWithout,
    plan: ({ newPod, leftovers, vmi, config }) => {
      const made = newPod();
      if (made.kind === 'problem') return waits(recheckMs);
      const user = config.runtimeUser;
      return does([
        ...(vmi?.status?.runtimeUser === user ? [] : [{ step: 'setRuntimeUser', user } as const]),
        { step: 'createTargetPod', pod: made.pod, leftovers: leftovers.filter((pod) => !isBeingDeleted(pod)) },
      ]);
    },
  },
];

const targetRules: readonly MigrationRule[] = [
  {
    name: 'target-on-source-node',
    why: 'The target pod was put on the node that the guest is on: the migration has failed at once.',
    when: (facts) => {
      const node = targetPod(facts)?.spec.nodeName;
      return ownState(facts) === undefined && node !== undefined && node === facts.vmi?.status?.nodeName;
    },
    plan: (facts) =>
      failsWithPod(
        facts,
        'TargetOnSourceNode',
        `the target pod was scheduled onto ${facts.vmi?.status?.nodeName}, where the VMI is already`,
      ),
  },
  {
    name: 'unschedulable-too-long',
    why: 'No node has taken the target pod for longer than a migration waits: it has failed with the words of the scheduler.',
    when: (facts) => isUnschedulable(facts) && pendingTooLong(facts, 'UnschedulablePod', unschedulableSeconds),
    plan: (facts) =>
      failsWithPod(
        facts,
        'Unschedulable',
        `unschedulable pod ${podName(facts)} timeout period exceeded: ${schedulersWords(facts)}`,
      ),
  },
  {
    name: 'pending-too-long',
    why: 'The target pod has not started for longer than a migration waits: it has failed.',
    when: (facts) => pendingTooLong(facts, 'PendingPod', pendingSeconds),
    plan: (facts) =>
      failsWithPod(
        facts,
        'PendingTooLong',
        `pending pod ${podName(facts)} timeout period exceeded${startProblem(facts)}`,
      ),
  },
  {
    name: 'unschedulable',
    why: 'No node takes the target pod; the scheduler says why, and it is waited for a while.',
    when: isUnschedulable,
    plan: (facts) => ({
      steps: [],
      change: {
        kind: 'condition',
        condition: {
          type: unschedulableCondition,
          status: 'True',
          reason: 'Unschedulable',
          message: schedulersWords(facts),
        },
      },
      events: newsOfScheduler(facts),
      requeueAfterMs: leftMs(facts, 'UnschedulablePod', unschedulableSeconds),
    }),
  },
  {
    name: 'target-there',
    why: 'The target pod is there, and the VMI has it on record.',
    when: (facts) => isPending(facts) && facts.target.kind === 'pod' && facts.target.isRecorded,
    plan: () => goesTo('Scheduling'),
  },
  {
    name: 'target-not-recorded',
    why: 'The target pod is there; it is waited until the VMI has it on record, so that no program takes it for a foreign one.',
    when: isPending,
    plan: () => waits(recheckMs),
  },
  {
    name: 'target-ready',
    why: 'The target pod runs.',
    when: (facts) => isIn(facts, 'Scheduling') && isTargetReady(facts),
    plan: () => goesTo('Scheduled'),
  },
  {
    name: 'target-starts',
    why: 'The target pod has a node and is being started there.',
    when: (facts) => isIn(facts, 'Scheduling'),
    plan: (facts) => waits(leftMs(facts, 'PendingPod', pendingSeconds)),
  },
];

const agentRules: readonly MigrationRule[] = [
  {
    name: 'handed-over',
    why: 'The VMI names the target node: its agent prepares itself.',
    when: (facts) => isIn(facts, 'Scheduled') && ownState(facts)?.targetNode !== undefined,
    plan: () => goesTo('PreparingTarget'),
  },
  {
    name: 'hand-over',
    why: 'The target pod is ready: the VMI is shown to the agent of its node.',
    when: (facts) => isIn(facts, 'Scheduled') && isTargetReady(facts),
    plan: (facts) => {
      const pod = targetPod(facts);
      return pod ? does([{ step: 'handOver', pod }]) : waits(recheckMs);
    },
  },
  {
    name: 'target-prepared',
    why: "The target's agent is ready for the streams.",
    when: (facts) =>
      isIn(facts, 'PreparingTarget') && Boolean(ownState(facts)?.targetNode && ownState(facts)?.targetNodeAddress),
    plan: () => goesTo('TargetReady'),
  },
  {
    name: 'target-not-prepared',
    why: "The target's agent has said nothing for minutes: nothing has moved, and the migration is ended.",
    when: (facts) => isIn(facts, 'PreparingTarget') && inPhaseMs(facts) >= preparationMs,
    plan: () =>
      does([{ step: 'failState', reason: 'the agent of the target node did not prepare itself within five minutes' }]),
  },
  {
    name: 'moving',
    why: 'The guest is on its way.',
    when: (facts) => isIn(facts, 'TargetReady') && Boolean(ownState(facts)?.startTimestamp),
    plan: () => goesTo('Running'),
  },
  {
    name: 'resize-to-finish',
    why: 'The guest has arrived; CPUs or memory that came with the migration are plugged in first.',
    when: (facts) => isIn(facts, 'Running') && ownState(facts)?.completed === true && isResizing(facts),
    plan: () => waits(),
  },
  {
    name: 'arrived',
    why: 'The guest runs on its new node.',
    when: (facts) => isIn(facts, 'Running') && ownState(facts)?.completed === true,
    plan: () => ({
      ...goesTo('Succeeded'),
      events: [{ type: 'Normal', reason: 'SuccessfulMigration', message: 'Source node reported migration succeeded' }],
    }),
  },
];

export const phaseRules: readonly MigrationRule[] = [
  ...beginRules,
  ...pendingRules,
  ...waitingRules,
  ...targetRules,
  ...agentRules,
];

/** What there is to do lies with the agents. */
export const agentsTurn = {
  name: 'agents-at-work',
  why: 'The agents of both nodes are at work; the VMI says how far they are.',
  plan: (facts: Facts) => waits(isIn(facts, 'PreparingTarget') ? preparationMs : undefined),
};

function isPendingWithout(facts: Facts): boolean {
  return isPending(facts) && facts.target.kind === 'none';
}

function hasUtilityVolumes({ vmi }: Facts): boolean {
  return utilityVolumesOf(vmi).length > 0;
}

function utilityMessage({ vmi }: Facts): string {
  return `utility volumes are plugged in: ${utilityVolumesOf(vmi).join(', ')}`;
}

function utilityLimitMs(facts: Facts): number {
  return limitMs(facts, limitAnnotation('UtilityVolumes'), facts.config.migrations.utilityVolumesTimeoutSeconds);
}

function isTargetReady(facts: Facts): boolean {
  const pod = targetPod(facts);
  return pod !== undefined && pod.spec.nodeName !== undefined && podFacts.isReady(pod);
}

function isUnschedulable(facts: Facts): boolean {
  const pod = targetPod(facts);
  return pod !== undefined && isIn(facts, 'Pending', 'Scheduling') && podFacts.isUnschedulable(pod);
}

function leftMs(facts: Facts, limit: string, seconds: number): number {
  const pod = targetPod(facts);
  const spentMs = (pod && pendingMs(pod, facts.now)) ?? 0;
  return Math.max(1_000, limitMs(facts, limitAnnotation(limit), seconds) - spentMs);
}

function pendingTooLong(facts: Facts, limit: string, seconds: number): boolean {
  const pod = targetPod(facts);
  const spentMs = pod && pendingMs(pod, facts.now);
  return (
    isIn(facts, 'Pending', 'Scheduling') &&
    spentMs !== undefined &&
    spentMs >= limitMs(facts, limitAnnotation(limit), seconds)
  );
}

function podName(facts: Facts): string {
  const { namespace, name } = targetPod(facts)?.metadata ?? {};
  return `${namespace}/${name}`;
}

function schedulersWords(facts: Facts): string {
  const pod = targetPod(facts);
  return (pod && whyUnschedulable(pod)) ?? '';
}

function newsOfScheduler({ migration, vmi, ...facts }: Facts) {
  const message = schedulersWords({ migration, vmi, ...facts });
  if (findCondition(migration.status?.conditions, unschedulableCondition)?.message === message) return [];
  const text = `Migration target pod for VMI [${vmi?.metadata.namespace}/${vmi?.metadata.name}] is currently unschedulable: ${message}`;
  return [{ type: 'Warning', reason: unschedulableCondition, message: text } as const];
}

/** In the kubelet's words, an image that cannot be pulled for example. */
function startProblem(facts: Facts): string {
  const statuses = targetPod(facts)?.status?.containerStatuses ?? [];
  const waiting = statuses.map(({ state }) => state?.waiting).find((each) => each?.message);
  return waiting ? `: ${waiting.reason}: ${waiting.message}` : '';
}

function isResizing({ vmi }: Facts): boolean {
  const conditions = vmi?.status?.conditions;
  const isTrue = (type: string) => findCondition(conditions, type)?.status === 'True';
  return (
    findCondition(conditions, 'HotVCPUChange') !== undefined || isTrue('HotMemoryChange') || isTrue('MigrationRequired')
  );
}
