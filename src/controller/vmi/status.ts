import { findCondition, keyOf, type Pod, type VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage, type Logger } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import {
  type Attempt,
  type ObjectEvent,
  type ReadYourWrites,
  stepFailureOf,
  type WriteReport,
  type Written,
} from '../../reconcile/index.ts';
import { podFacts } from '../pod/index.ts';
import type { VmiDecision } from './decide.ts';
import { failureReasons, staleCode } from './execute.ts';
import type { PresentVmi, SyncFailure, VmiFacts, VmiObservation } from './observation.ts';
import { projectVmi, startProblem } from './project.ts';
import type { VsockCids } from './vsock-cids.ts';
import { writeVmi } from './write.ts';

export interface StatusDeps {
  readonly client: Pick<KubeClient, 'get' | 'update' | 'patch'>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly ownPods: Pick<ReadYourWrites<Pod>, 'get'>;
  readonly log: Logger;
  readonly randomUuid: () => string;
  readonly cids: Pick<VsockCids, 'give'>;
}

/** Projects the VMI and writes what differs, also after a failed step. Never rejects but with the signal's reason. */
export async function writeStatus(
  { observation, decision, outcomes }: Attempt<VmiObservation, VmiDecision>,
  report: WriteReport,
  deps: StatusDeps,
  signal: AbortSignal,
): Promise<Written> {
  if (observation.kind !== 'present') return { kind: 'no-object' };
  if (decision.leavesVmi) return { kind: 'unchanged' };
  const error = stepFailureOf(outcomes);
  if (error?.code === staleCode) return { kind: 'outdated' };
  const failure = error
    ? { reason: failureReasons[error.code] ?? 'FailedSync', message: error.message }
    : refusal(decision);
  const seen = error ? observation : withMadePod(observation, decision, deps);
  try {
    return await store(
      seen,
      projectVmi(seen, {
        failure,
        randomUuid: deps.randomUuid,
        vsockCid: () => deps.cids.give(observation.vmi),
      }),
      report,
      deps,
      signal,
    );
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { kind: 'failed', error: cause };
  }
}

/** The launcher pod that this reconcile has made is recorded at once: until then nobody but this process knows that it is one. */
function withMadePod(
  observation: PresentVmi,
  { steps }: VmiDecision,
  { ownPods }: Pick<StatusDeps, 'ownPods'>,
): PresentVmi {
  const creation = steps.find((each) => each.step === 'createPod');
  const pod = creation && ownPods.get(keyOf(creation.pod));
  if (!pod || podFacts.isTemporary(pod)) return observation;
  return { ...observation, pods: [...observation.pods, pod], pod };
}

function refusal({ problem, problemReason: reason = 'FailedCreate' }: VmiDecision): SyncFailure | undefined {
  return problem === undefined ? undefined : { reason, message: problem };
}

async function store(
  observation: PresentVmi,
  wanted: VirtualMachineInstance,
  report: WriteReport,
  { client, vmis, log }: StatusDeps,
  signal: AbortSignal,
): Promise<Written> {
  const { key, uid, vmi } = observation;
  const saw = (newer: VirtualMachineInstance) => vmis.saw(key, vmi, newer);
  const written = await vmis.whileWriting(key, () => writeVmi(vmi, wanted, { client, saw, signal }));
  if (written.kind === 'refused') return { kind: 'refused', error: new Error(errorMessage(written.refusal)) };
  if (written.kind !== 'written') return { kind: written.kind };
  report(eventsOf(observation, wanted));
  const phase = wanted.status?.phase;
  if (phase !== vmi.status?.phase) log.info({ vmi: key, uid, phase }, 'phase');
  return { kind: 'written' };
}

/** Events for what the user has to know, once per change. */
function eventsOf({ vmi, pod }: VmiFacts, wanted: VirtualMachineInstance): ObjectEvent[] {
  const volumes = volumeEvents(vmi, wanted);
  const before = findCondition(vmi.status?.conditions, 'Synchronized')?.message;
  const now = findCondition(wanted.status?.conditions, 'Synchronized');
  const isNews = now?.status === 'False' && before !== now.message;
  const isFromPod = startProblem(pod) !== undefined || now?.reason === 'PodFailed';
  if (!isNews || !isFromPod) return volumes;
  return [...volumes, { type: 'Warning', reason: now.reason ?? 'FailedSync', message: now.message ?? '' }];
}

const volumeReasons: readonly (string | undefined)[] = ['SuccessfulCreate', 'SuccessfulDelete'];

/** The way of a plugged volume's attachment pod, in the words of its entry. */
function volumeEvents(vmi: VirtualMachineInstance, wanted: VirtualMachineInstance): ObjectEvent[] {
  const before = new Map((vmi.status?.volumeStatus ?? []).map(({ name, message }) => [name, message]));
  return (wanted.status?.volumeStatus ?? []).flatMap(({ name, reason, message }): ObjectEvent[] => {
    const isNews = message !== undefined && before.get(name) !== message && volumeReasons.includes(reason);
    return isNews ? [{ type: 'Normal', reason: reason ?? '', message }] : [];
  });
}
