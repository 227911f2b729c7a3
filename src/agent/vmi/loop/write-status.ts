import type { Key, VirtualMachineInstance } from '../../../api/index.ts';
import { CodedError } from '../../../base/index.ts';
import type { KeyMemory } from '../observe/index.ts';
import type { AgentPorts, VmiEvent } from '../ports.ts';
import { clip, type Pass, type Projection, project, semanticEqual } from '../status/index.ts';
import type { OwnWrites } from './own-writes.ts';
import { activeRefusal, onlyEssential, type Refusal, type Refused, rememberRefusal, suspects } from './refusal.ts';
import { stillHolds } from './still-holds.ts';

/** Newest object and PUT again, this often, before the key goes to its back-off. */
const conflictTries = 5;

/** Nothing of it was taken. `INVALID`: the same again is refused again. */
export class WriteRefusedError extends CodedError<'INVALID'> {}

type Remember = Partial<Omit<KeyMemory, 'uid'>>;

export type WriteOutcome =
  | { readonly kind: 'unchanged' | 'written'; readonly projection: Projection; readonly remember?: Remember }
  /** The object changed so that the decision may no longer hold: observe again, the newest object is known. */
  | { readonly kind: 'outdated' }
  | { readonly kind: 'gone' }
  | { readonly kind: 'conflicts' }
  /** Not even the essential was taken. */
  | {
      readonly kind: 'refused';
      readonly error: WriteRefusedError;
      readonly events: readonly VmiEvent[];
      readonly remember: Remember;
    };

export interface WritePorts {
  readonly writer: AgentPorts['writer'];
  readonly lookup: AgentPorts['lookup'];
  readonly vmis: OwnWrites;
}

/**
 * Writes what `project` makes of the pass. After a 409 the newest object is read and the same projection is put on it at
 * once, without repeating any call to the launcher (spec 10 §16, 6). What is too large or refused by admission is written
 * without the part that is the cause, at worst with the essential only; that part is tried again later. Rejects when the API
 * server does not answer.
 */
export async function writeStatus(
  key: Key,
  stored: VirtualMachineInstance,
  pass: Pass,
  ports: WritePorts,
  signal: AbortSignal,
): Promise<WriteOutcome> {
  let base = stored;
  for (let attempt = 0; attempt < conflictTries; attempt++) {
    const written = await writeOnto(base, pass, ports, signal);
    if (written.kind === 'gone') return { kind: 'gone' };
    if (written.kind === 'done') {
      if (written.vmi) ports.vmis.saw(key, stored, written.vmi);
      return written.outcome;
    }
    const newest = await ports.lookup.find(key, signal);
    if (!newest) return { kind: 'gone' };
    ports.vmis.saw(key, stored, newest);
    if (!stillHolds(stored, newest)) return { kind: 'outdated' };
    base = newest;
  }
  return { kind: 'conflicts' };
}

type Attempt =
  | { readonly kind: 'done'; readonly vmi?: VirtualMachineInstance; readonly outcome: WriteOutcome }
  | { readonly kind: 'gone' | 'conflict' }
  | { readonly kind: 'refused'; readonly result: Refusal; readonly projection: Projection };

/** As much as the API server takes: the whole, or what was left of it last time; then without one suspect after the other. */
async function writeOnto(
  base: VirtualMachineInstance,
  pass: Pass,
  ports: WritePorts,
  signal: AbortSignal,
): Promise<Exclude<Attempt, { kind: 'refused' }>> {
  const { memory, nowMs } = pass.observation;
  const known = activeRefusal(memory.refusal, nowMs);
  const first = await writeOnce(base, pass, known, ports, signal);
  if (first.kind !== 'refused') return first;
  let last = first;
  for (const refused of suspects(first.projection, base, first.result, known)) {
    // A change that a rule decided on has no part to leave out.
    if (isSameBody(project(base, { ...pass, refused }), first.projection)) continue;
    const next = await writeOnce(base, pass, refused, ports, signal);
    if (next.kind !== 'refused') return next;
    last = next;
  }
  return { kind: 'done', outcome: nothingTaken(last.result, pass) };
}

async function writeOnce(
  base: VirtualMachineInstance,
  pass: Pass,
  refused: Refused | undefined,
  { writer }: WritePorts,
  signal: AbortSignal,
): Promise<Attempt> {
  const projection = project(base, refused ? { ...pass, refused } : pass);
  if (!projection.vmi) return { kind: 'done', outcome: outcomeOf('unchanged', projection, refused, pass) };
  const result = await writer.put(projection.vmi, signal);
  if (result.kind === 'gone' || result.kind === 'conflict') return { kind: result.kind };
  if (result.kind === 'refused') return { kind: 'refused', result, projection };
  return { kind: 'done', vmi: result.vmi, outcome: outcomeOf('written', projection, refused, pass) };
}

/** Also when the part that is not taken is tried again. */
function outcomeOf(
  kind: 'unchanged' | 'written',
  projection: Projection,
  refused: Refused | undefined,
  { observation }: Pass,
): WriteOutcome {
  const before = observation.memory.refusal;
  if (!refused) return { kind, projection, ...(before && { remember: { refusal: undefined } }) };
  const refusal = rememberRefusal(before, refused, observation.nowMs);
  const waitMs = Math.max(1, refusal.retryAtMs - observation.nowMs);
  const requeueAfterMs = Math.min(waitMs, projection.requeueAfterMs ?? waitMs);
  return { kind, projection: { ...projection, requeueAfterMs }, remember: { refusal } };
}

function nothingTaken({ message }: Refusal, { observation }: Pass): WriteOutcome {
  const { memory, nowMs } = observation;
  const problem = clip(`the API server takes no change of this VirtualMachineInstance: ${message}`, maxProblemBytes);
  const refusal = rememberRefusal(memory.refusal, onlyEssential(problem), nowMs);
  const isTold = memory.toldProblem === problem;
  return {
    kind: 'refused',
    error: new WriteRefusedError('INVALID', problem),
    events: isTold ? [] : [{ type: 'Warning', reason: 'SyncFailed', message: problem }],
    remember: { refusal, toldProblem: problem },
  };
}

const maxProblemBytes = 1024;

function isSameBody(left: Projection, right: Projection): boolean {
  return semanticEqual(left.vmi, right.vmi);
}
