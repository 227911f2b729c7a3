import { type Key, resources, type VirtualMachine, type VirtualMachineInstance } from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import { type CallOptions, getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import {
  type Attempt,
  type ReadYourWrites,
  stepFailureOf,
  type WriteAttempt,
  type WriteReport,
  type Written,
  writeGuarded,
} from '../../reconcile/index.ts';
import type { VmDecision } from './decide.ts';
import { failureReasons, releaseVmi } from './execute.ts';
import type { PresentVm, VmFailure, VmObservation } from './observation.ts';
import { projectVmStatus } from './status.ts';

export interface StatusDeps {
  readonly client: Pick<KubeClient, 'get' | 'updateStatus' | 'patch' | 'delete'>;
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly random: () => number;
  /** Hears of a state from which nothing follows that was not decided with it, by its version. */
  readonly told: (key: Key, version: string | undefined) => void;
}

/** What is only told of a VM: while it has a VMI no decision reads it. */
const toldFields = new Set([
  'conditions',
  'created',
  'desiredGeneration',
  'observedGeneration',
  'printableStatus',
  'ready',
  'runStrategy',
  'volumeSnapshotStatuses',
]);

/** Stores the status if it differs, also after a failed step, and lets a VMI go whose end is recorded now. */
export async function writeStatus(
  { observation, decision, outcomes }: Attempt<VmObservation, VmDecision>,
  report: WriteReport,
  deps: StatusDeps,
  signal: AbortSignal,
): Promise<Written> {
  if (observation.kind !== 'present') return { kind: 'no-object' };
  const error = stepFailureOf(outcomes);
  try {
    const failure = error ? failureOf(error) : refusal(decision);
    const isKept = decision.status === 'keep' && !failure;
    const written: Written = isKept
      ? { kind: 'unchanged' }
      : await store(observation, { decision, failure, report }, deps, signal);
    const isRecorded = written.kind === 'written' || written.kind === 'unchanged';
    if (isRecorded && decision.releasesVmi) await releaseVmi(decision.releasesVmi, deps.client, signal);
    return written;
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { kind: 'failed', error: cause };
  }
}

function failureOf({ code, message }: { readonly code: string; readonly message: string }): VmFailure | undefined {
  const reason = failureReasons[code];
  return reason === undefined ? undefined : { reason, message };
}

function refusal({ problem, problemReason: reason = 'FailedCreate', status }: VmDecision): VmFailure | undefined {
  return problem === undefined || status === 'keep' ? undefined : { reason, message: problem };
}

interface Told {
  readonly decision: VmDecision;
  readonly failure: VmFailure | undefined;
  readonly report: WriteReport;
}

async function store(
  observation: PresentVm,
  { decision, failure, report }: Told,
  { client, vms, vmis, random, told }: StatusDeps,
  signal: AbortSignal,
): Promise<Written> {
  const { key, vm } = observation;
  const pending = vmis.pending(key);
  const expected = { creationExpected: pending === 'create', deletionExpected: pending === 'delete' };
  const status = projectVmStatus({ ...observation, ...expected }, failure, random);
  if (decision.status === 'requestStart')
    status.stateChangeRequests = [...(status.stateChangeRequests ?? []), { action: 'Start' }];
  const written = await vms.whileWriting(key, () =>
    writeGuarded<VirtualMachine, undefined, never>(vm, {
      attempt: async (base) => {
        const isTold = observation.vmi !== undefined && isOnlyTold(vm.status, status);
        const result = await putStatus({ ...base, status }, vm, client, { signal, later: isTold });
        if (result.kind === 'written' && isTold) told(key, result.object.metadata.resourceVersion);
        return result;
      },
      newest: () => getIfThere<VirtualMachine>(client, resources.virtualMachines, vm.metadata, { signal }),
      stillHolds: () => false,
      saw: (newer) => vms.saw(key, vm, newer),
      tries: 1,
    }),
  );
  const message = status.memoryDumpRequest?.message ?? '';
  const isNews = status.memoryDumpRequest?.phase !== vm.status?.memoryDumpRequest?.phase;
  if (written.kind === 'written' && isNews && message)
    report([{ type: 'Warning', reason: 'MemoryDumpError', message }]);
  return written.kind === 'refused' ? { kind: 'refused', error: written.refusal } : { kind: written.kind };
}

function isOnlyTold(before: object = {}, now: object = {}): boolean {
  const read = (status: object) => Object.fromEntries(Object.entries(status).filter(([name]) => !toldFields.has(name)));
  return sameJson(read(before), read(now));
}

async function putStatus(
  wanted: VirtualMachine,
  old: VirtualMachine,
  client: StatusDeps['client'],
  call: CallOptions,
): Promise<WriteAttempt<VirtualMachine, undefined, never>> {
  if (sameJson(old.status, wanted.status)) return { kind: 'unchanged', note: undefined };
  try {
    const object = await client.updateStatus(resources.virtualMachines, wanted, call);
    return { kind: 'written', object, note: undefined };
  } catch (error) {
    if (isKubeError(error, 'CONFLICT')) return { kind: 'conflict' };
    if (isKubeError(error, 'NOT_FOUND')) return { kind: 'gone' };
    throw error;
  }
}
