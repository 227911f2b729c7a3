import type { Domain, GoneProof, VmiPhase } from '../../../api/index.ts';
import { type Observation, syncedOf } from '../observe/index.ts';
import { askAgain, isAnsweredAgain } from './ask-again.ts';
import { type Facts, isMigrationInProgress } from './facts.ts';
import { sourceView } from './migration/source-view.ts';
import { type Plan, type Rule, rest, wait } from './rule.ts';
import { hasFailedPostCopy } from './shutdown-rules.ts';
import { needsSync } from './sync-state.ts';

/** A launcher's socket may be missing this long after its pod was first looked at (pkg/virt-handler/launcher-clients). */
const socketWaitMs = 180_000;

/** Between two looks at a guest that moves and of which nothing is seen here. */
const migrationLookMs = 10_000;

const isScheduled = ({ phase }: Facts) => phase === 'Scheduled';

/** Writes the phase now and looks again at once: the act that follows from it is another rule's. */
function become(phase: VmiPhase, more: Partial<Plan> = {}): Plan {
  return { steps: [], phase, requeueAfterMs: 0, ...more };
}

/** Nothing starts a failed VirtualMachineInstance again; its pod is where the cause is written. */
const whatToDo =
  'See the log and the status of its launcher pod for the cause (kubectl describe, kubectl logs), then delete the ' +
  'VirtualMachineInstance and create it again; a VirtualMachine with runStrategy Always does that by itself.';

function end(facts: Facts): Plan {
  const { domainState } = facts;
  if (domainState.kind !== 'stopped' && domainState.kind !== 'gone') return rest;
  const { phase, because } = domainState.finalPhase;
  const remember = { ending: { finalPhase: { phase, because } } };
  const isLost = domainState.kind === 'gone' && phase === 'Failed' && !facts.deleting;
  return become(phase, { remember, ...(isLost && { problem: lostText(domainState.proof) }) });
}

/** A guest that was stopped has shown how it ended; one that is gone has not. */
function lostText(proof: GoneProof): string {
  const what =
    proof === 'launcher-dead' ? 'the launcher of the guest ended, and the guest with it' : 'the guest is gone';
  return `${what}. ${whatToDo}`;
}

function fail(because: string): Plan {
  return become('Failed', { remember: { ending: { finalPhase: { phase: 'Failed', because } } }, problem: because });
}

/**
 * Who never saw the guest run has only the launcher's first word for its end, which may be from before the start (a new
 * process; one of two agents, when the other one started it and wrote Running): one question is not enough for a final phase.
 */
function isLostUnconfirmed(facts: Facts): boolean {
  const { phase, observation } = facts;
  const { domain, memory } = observation;
  if (phase !== 'Running' || domain.kind !== 'gone' || domain.proof !== 'launcher-says-none') return false;
  return !hasRun(domain.lastDomain) && memory.ending.finalPhase === undefined && !isAnsweredAgain(facts);
}

const hasRun = (domain: Domain | undefined) =>
  domain !== undefined && (domain.Status.Status !== 'Shutoff' || domain.Status.Reason !== 'Unknown');

/** It was to leave from here and has ended here: nothing of it goes on. */
const hasLostItsGuest = (facts: Facts) => facts.domainState.kind === 'gone' && sourceView(facts) !== undefined;

/** The guest runs what its launcher was given last, and nothing asks for its end: nothing follows from phase Running. */
function isAllDone(facts: Facts): boolean {
  const { domain } = facts.observation;
  if (domain.kind !== 'present' || domain.domain.Status.Status !== 'Running' || needsSync(facts)) return false;
  // Its pod began to end while the guest was started: that counts from phase Running on (Ending, facts.ts).
  return domain.domain.Spec?.Metadata?.KubeVirt?.GracePeriod?.MarkedForGracefulShutdown !== true;
}

/** A sync starts a guest that is down. What was reported before the answer to the last one may be from before that start. */
function isOlderThanSync({ domain, memory }: Observation): boolean {
  const endedMs = syncedOf(memory)?.endedMs;
  return domain.kind === 'present' && endedMs !== undefined && domain.seenMs < endedMs;
}

/**
 * Phase changes (pkg/virt-handler/vm.go). A final phase needs proof: a domain that says how it ended, or a domain proven gone.
 */
export const phaseRules: readonly Rule[] = [
  {
    name: 'stopped-while-told-to-run',
    why: 'The guest stopped while its launcher was told to run it, which may have started it again, so the launcher is asked.',
    when: ({ domainState, observation }) => domainState.kind === 'stopped' && isOlderThanSync(observation),
    plan: ({ uid }) => ({ steps: [{ step: 'refreshDomain', uid }], requeueAfterMs: 0 }),
  },
  {
    name: 'guest-stopped',
    why: 'The guest has stopped and the domain says how, so the final phase is written.',
    when: ({ domainState }) => domainState.kind === 'stopped',
    plan: end,
  },
  {
    name: 'domain-migrated',
    why: 'The guest migrated away; the node that has it now takes the VMI over.',
    when: ({ domainState, deleting, vmi }) =>
      domainState.kind === 'migrated' && !deleting && !vmi?.status?.migrationState?.endTimestamp,
    plan: () => rest,
  },
  {
    name: 'migrated-without-hand-over',
    why: 'The guest migrated away and no node took the VMI over, so it counts as failed.',
    when: ({ domainState }) => domainState.kind === 'migrated',
    plan: () => fail('the guest migrated away and no other node took it over'),
  },
  {
    name: 'post-copy-failed',
    why: 'The post-copy migration failed and the guest cannot be recovered, so the VMI counts as failed.',
    // While its migration is open, it may be resumed.
    when: (facts) => hasFailedPostCopy(facts) && sourceView(facts) === undefined,
    plan: () => fail('the post-copy migration failed and the guest cannot be recovered'),
  },
  {
    name: 'migration-in-progress',
    why: 'A live migration of the guest is under way; nothing else is done until it ends.',
    when: (facts) => !facts.deleting && isMigrationInProgress(facts) && !hasLostItsGuest(facts),
    // No event reports the end of a launcher that this agent is not connected to.
    plan: ({ domainState }) => (domainState.kind === 'alive' ? rest : wait(migrationLookMs)),
  },
  {
    name: 'shutoff-believed',
    why: 'The launcher was asked twice and shows the domain shut off without a reason, so the VMI counts as failed.',
    when: (facts) => facts.domainState.kind === 'shutoff-unexplained' && isAnsweredAgain(facts),
    plan: () => fail('libvirt shows the domain shut off and gives no reason'),
  },
  {
    name: 'shutoff-unexplained',
    why: 'The domain is shut off and says no reason, so the launcher is asked once more before that is believed.',
    when: ({ domainState }) => domainState.kind === 'shutoff-unexplained',
    plan: askAgain,
  },
  {
    name: 'domain-none-unconfirmed',
    why: 'The launcher says that it has no guest, and this agent never saw one end, so it asks once more.',
    when: isLostUnconfirmed,
    plan: askAgain,
  },
  {
    name: 'domain-lost',
    why: 'The guest ran and is proven to be gone, so the final phase is written.',
    when: ({ phase, domainState }) => phase === 'Running' && domainState.kind === 'gone',
    plan: end,
  },
  {
    name: 'ended-before-seen-running',
    why: 'The guest was shut down, and its launcher ended, before phase Running could be written; the VMI succeeded.',
    when: ({ phase, domainState }) =>
      phase === 'Scheduled' && domainState.kind === 'gone' && domainState.finalPhase.phase === 'Succeeded',
    plan: end,
  },
  {
    name: 'launcher-dead-before-start',
    why: 'The launcher is proven dead and the guest never started, so the VMI counts as failed.',
    when: (facts) =>
      isScheduled(facts) && facts.domainState.kind === 'gone' && facts.domainState.proof === 'launcher-dead',
    plan: () => fail(`the launcher of this VirtualMachineInstance died before the guest was started. ${whatToDo}`),
  },
  {
    name: 'launcher-never-ready',
    why: 'The launcher did not open its socket within the time limit, so the VMI counts as failed.',
    when: (facts) => {
      const { launcher } = facts.observation;
      return isScheduled(facts) && launcher.kind === 'not-ready' && launcher.forMs >= socketWaitMs;
    },
    plan: () =>
      fail(`the launcher of this VirtualMachineInstance has not opened its socket within 3 minutes. ${whatToDo}`),
  },
  {
    name: 'domain-running',
    why: 'The guest runs, so phase Running is written.',
    when: ({ phase, domainState }) => domainState.kind === 'alive' && domainState.runs && phase !== 'Running',
    // A final phase that was decided and could not be written is refuted.
    plan: (facts) => ({
      ...(isAllDone(facts) ? { steps: [], phase: 'Running' } : become('Running')),
      healthy: true,
      remember: { ending: { finalPhase: undefined } },
    }),
  },
  {
    name: 'handed-over',
    why: 'The controller handed the VMI to this node, so phase Scheduled is written.',
    when: ({ phase, domainState }) =>
      phase !== 'Running' && phase !== 'Scheduled' && ['gone', 'absent', 'not-started'].includes(domainState.kind),
    plan: () => become('Scheduled'),
  },
  {
    name: 'launcher-not-ready',
    why: 'The launcher has not opened its socket yet; it is looked for again in a moment.',
    when: ({ observation }) => observation.launcher.kind === 'not-ready' && observation.domain.kind !== 'present',
    plan: ({ phase, observation: { launcher } }) => ({
      ...wait(1_000),
      ...(launcher.kind === 'not-ready' && launcher.forMs >= socketWaitMs && { problem: noSocketText(phase) }),
    }),
  },
];

/** It ran, or it would have failed by now; what is not there proves nothing. */
function noSocketText(phase: VmiPhase): string {
  return (
    `the pod of this VirtualMachineInstance is on this node and has had no launcher socket for minutes, so nobody can say how ` +
    `its guest is (phase ${phase || 'empty'}). Look at the log of the pod; if its launcher has ended, delete the pod.`
  );
}
