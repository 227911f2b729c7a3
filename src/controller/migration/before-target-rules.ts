import { isBeingDeleted, type MigrationPriority, migrationEnd } from '../../api/index.ts';
import { motionRules } from './attachment-rules.ts';
import { isTargetEnd } from './decentralised-facts.ts';
import { inPhaseMs, isPending, limitAnnotation, limitMs, utilityVolumesOf } from './facts.ts';
import { failsWithPod } from './failure-rules.ts';
import { does, type Facts, fails, type MigrationPlan, type MigrationRule, utilityCondition, waits } from './plan.ts';
import { stateClaimForTarget } from './state-rules.ts';

const recheckMs = 60_000;
const otherPodsMs = 5_000;
const missingPodMs = 1_000;
const turnMs = 1_000;

/** By upstream's priority of its queue (getRequeueDelayForPriority in pkg/virt-controller/watch/migration/migration.go). */
const limitPauses: Readonly<Record<MigrationPriority, number>> = {
  'system-critical': 1_000,
  'user-triggered': 3_000,
  'system-maintenance': 5_000,
};

const heldUpRules: readonly MigrationRule[] = [
  {
    name: 'in-back-off',
    why: 'A migration that nobody asked for by hand has failed for this VMI, or the one that this one tries again: the next one waits, and an automatic one longer each time.',
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
    when: (facts) => isPendingWithout(facts) && migrationEnd(facts.migration) === undefined && insistsOnSource(facts),
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
];

/** What the pod to move to waits for, and its creation. */
export const waitingRules: readonly MigrationRule[] = [
  {
    name: 'target-not-shown-yet',
    why: 'The API server has the target pod, the cache does not show it yet: it is waited for.',
    when: ({ target }) => target.kind === 'unseen',
    plan: () => waits(missingPodMs),
  },
  {
    name: 'vmi-not-running',
    why: 'The guest does not run yet; it can only move then.',
    when: (facts) => isPendingWithout(facts) && !isTargetEnd(facts) && facts.vmi?.status?.phase !== 'Running',
    plan: () => waits(recheckMs),
  },
  {
    name: 'source-pod-missing',
    why: 'The pod that the guest is in is not known yet.',
    when: (facts) => isPendingWithout(facts) && !isTargetEnd(facts) && facts.sourcePod === undefined,
    plan: () => waits(missingPodMs),
  },
  {
    name: 'another-has-begun',
    why: 'Another migration of this VMI has begun: this one waits for its end.',
    when: (facts) => isPendingWithout(facts) && facts.rival?.hasState === true,
    plan: () => waits(otherPodsMs),
  },
  {
    name: 'older-one-first',
    why: 'An older migration of this VMI was seen only after this one was accepted: this one waits for its end.',
    when: (facts) => isPendingWithout(facts) && facts.rival !== undefined,
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
    name: 'others-first',
    why: 'There is room, but more urgent migrations need it, or older ones that are as urgent.',
    when: (facts) => isPendingWithout(facts) && !facts.isTurn,
    plan: () => waits(turnMs),
  },
  stateClaimForTarget,
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

/** What forbids a pod to move to, here or on another side, and what has to be over first. */
export const pendingRules: readonly MigrationRule[] = [...heldUpRules, ...motionRules];

function isPendingWithout(facts: Facts): boolean {
  return isPending(facts) && facts.target.kind === 'none';
}

function waitsForRoom({ migration }: Facts): MigrationPlan {
  return waits(limitPauses[migration.spec.priority ?? 'system-maintenance'] ?? limitPauses['system-maintenance']);
}

/** The node that the migration or the VMI insists on is the one that the guest is on. */
function insistsOnSource({ migration, vmi, nodeLabels }: Facts): boolean {
  const host = nodeLabels['kubernetes.io/hostname'] ?? vmi?.status?.nodeName;
  const wanted = { ...migration.spec.addedNodeSelector, ...vmi?.spec.nodeSelector }['kubernetes.io/hostname'];
  return wanted !== undefined && wanted === host;
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
