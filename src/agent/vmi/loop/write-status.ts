import type { Key, VirtualMachineInstance } from '../../../api/index.ts';
import { CodedError, memberAt } from '../../../base/index.ts';
import { type ReadYourWrites, type WriteAttempt, type WriteOutcome, writeGuarded } from '../../../reconcile/index.ts';
import type { Remember } from '../observe/index.ts';
import type { AgentPorts, VmiEvent } from '../ports.ts';
import { clip, type Projection, project, type Reconciled, semanticEqual } from '../status/index.ts';
import { activeRefusal, onlyEssential, type Refused, type RefusedWrite, rememberRefusal, suspects } from './refusal.ts';
import { stillHolds } from './still-holds.ts';

/** Newest object and PUT again, this often, before the key goes to its back-off. */
const conflictTries = 5;

/** Nothing of it was taken. `INVALID`: the same again is refused again. */
export class WriteRefusedError extends CodedError<'INVALID'> {}

export interface Taken {
  readonly projection: Projection;
  readonly remember?: Remember;
}

/** Not even the essential was taken. */
interface NothingTaken {
  readonly error: WriteRefusedError;
  readonly events: readonly VmiEvent[];
  readonly remember: Remember;
}

export type StatusWrite = WriteOutcome<Taken, NothingTaken>;

export interface WritePorts {
  readonly writer: AgentPorts['writer'];
  readonly lookup: AgentPorts['lookup'];
  readonly backupTrackers: AgentPorts['backupTrackers'];
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
}

/**
 * Writes what `project` makes of the reconcile. After a 409 the same projection is put on the newest object at once, without
 * repeating any call to the launcher; upstream repeats the whole reconcile. What is too large or refused by admission is written
 * without the part that is the cause, at worst with the essential only; that part is tried again later. Rejects when the API
 * server does not answer.
 */
export function writeStatus(
  key: Key,
  stored: VirtualMachineInstance,
  reconciled: Reconciled,
  ports: WritePorts,
  signal: AbortSignal,
): Promise<StatusWrite> {
  return writeGuarded(stored, {
    attempt: (base) => writeOnto(base, reconciled, ports, signal),
    newest: () => ports.lookup.find(key, signal),
    stillHolds,
    saw: (newer) => ports.vmis.saw(key, stored, newer),
    tries: conflictTries,
  });
}

type Attempt<RefusedWrite> = WriteAttempt<VirtualMachineInstance, Taken, RefusedWrite>;

/** As much as the API server takes: the whole, or what was left of it last time; then without one suspect after the other. */
async function writeOnto(
  base: VirtualMachineInstance,
  reconciled: Reconciled,
  ports: WritePorts,
  signal: AbortSignal,
): Promise<Attempt<NothingTaken>> {
  const { memory, nowMs } = reconciled.observation;
  const known = activeRefusal(memory.writes.refusal, nowMs);
  const first = await writeOnce(base, reconciled, known, ports, signal);
  if (first.kind !== 'refused') return first;
  let last = first.refusal;
  for (const refused of suspects(last.projection, base, last.result, known)) {
    // A change that a rule decided on has no part to leave out.
    if (isSameBody(project(base, { ...reconciled, refused }), first.refusal.projection)) continue;
    const next = await writeOnce(base, reconciled, refused, ports, signal);
    if (next.kind !== 'refused') return next;
    last = next.refusal;
  }
  return { kind: 'refused', refusal: nothingTaken(last.result, reconciled) };
}

async function writeOnce(
  base: VirtualMachineInstance,
  reconciled: Reconciled,
  refused: Refused | undefined,
  ports: WritePorts,
  signal: AbortSignal,
): Promise<Attempt<{ readonly result: RefusedWrite; readonly projection: Projection }>> {
  const projection = project(base, refused ? { ...reconciled, refused } : reconciled);
  if (!projection.vmi) return { kind: 'unchanged', note: takenOf(projection, refused, reconciled) };
  const { writer, backupTrackers } = ports;
  // First the trackers: from then on backups begin, and those that go on from a checkpoint would be refused.
  const untold = beginsTracking(base, projection.vmi)
    ? await backupTrackers.guestStarted(base.metadata, signal)
    : undefined;
  if (untold !== undefined) return writeOnce(base, reconciled, withoutTracking(untold, refused), ports, signal);
  const result = await writer.put(projection.vmi, signal);
  if (result.kind === 'gone' || result.kind === 'conflict') return { kind: result.kind };
  if (result.kind === 'refused') return { kind: 'refused', refusal: { result, projection } };
  return { kind: 'written', object: result.vmi, note: takenOf(projection, refused, reconciled) };
}

function beginsTracking(base: VirtualMachineInstance, next: VirtualMachineInstance): boolean {
  const [before, after] = [base, next].map(({ status }) => memberAt(status, 'changedBlockTracking', 'state'));
  return after === 'Enabled' && before !== after;
}

/** Until trackers can be told the VMI says that tracking has not begun, and no backup begins. */
function withoutTracking(message: string, refused: Refused | undefined): Refused {
  const parts = [...(refused?.parts ?? []), 'changedBlockTracking'];
  return { parts, message: clip(message, maxProblemBytes), makeRoom: refused?.makeRoom ?? false };
}

/** Also when the part that is not taken is tried again. */
function takenOf(projection: Projection, refused: Refused | undefined, { observation }: Reconciled): Taken {
  const before = observation.memory.writes.refusal;
  if (!refused) return { projection, ...(before && { remember: { writes: { refusal: undefined } } }) };
  const refusal = rememberRefusal(before, refused, observation.nowMs);
  const waitMs = Math.max(1, refusal.retryAtMs - observation.nowMs);
  const requeueAfterMs = Math.min(waitMs, projection.requeueAfterMs ?? waitMs);
  return { projection: { ...projection, requeueAfterMs }, remember: { writes: { refusal } } };
}

function nothingTaken({ message }: RefusedWrite, { observation }: Reconciled): NothingTaken {
  const { memory, nowMs } = observation;
  const problem = clip(`the API server takes no change of this VirtualMachineInstance: ${message}`, maxProblemBytes);
  const refusal = rememberRefusal(memory.writes.refusal, onlyEssential(problem), nowMs);
  const isReported = memory.reports.reportedProblem === problem;
  return {
    error: new WriteRefusedError('INVALID', problem),
    events: isReported ? [] : [{ type: 'Warning', reason: 'SyncFailed', message: problem }],
    remember: { writes: { refusal }, reports: { reportedProblem: problem } },
  };
}

const maxProblemBytes = 1024;

function isSameBody(left: Projection, right: Projection): boolean {
  return semanticEqual(left.vmi, right.vmi);
}
