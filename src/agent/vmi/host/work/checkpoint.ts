import type { Key } from '../../../../api/index.ts';
import { errorMessage, isRecord, whyUnsafe } from '../../../../base/index.ts';
import type { HookStage, Json } from './contract.ts';
import { HostWorkError } from './errors.ts';

export interface HookRecord {
  readonly stage: HookStage;
  readonly state?: Json;
  readonly facts?: Json;
}

/** What is kept of the host work for one VMI UID, in one file. */
export interface Checkpoint {
  readonly uid: string;
  readonly key: Key;
  readonly process?: { readonly pid: number; readonly startTime: string };
  readonly hooks: ReadonlyMap<string, HookRecord>;
}

const version = 1;
export const maxCheckpointBytes = 64 * 1024;
const maxDepth = 24;

/** Throws HostWorkError CHECKPOINT_TOO_LARGE. */
export function encodeCheckpoint({ uid, key, process, hooks }: Checkpoint): string {
  const text = JSON.stringify({ version, uid, key, ...(process && { process }), hooks: Object.fromEntries(hooks) });
  const bytes = Buffer.byteLength(text);
  if (bytes <= maxCheckpointBytes) return text;
  const problem = `what hooks keep for VMI ${uid} has ${bytes} bytes, more than the ${maxCheckpointBytes} that are kept`;
  throw new HostWorkError('CHECKPOINT_TOO_LARGE', problem);
}

/** Throws HostWorkError CHECKPOINT_INVALID, CHECKPOINT_NEWER or CHECKPOINT_TOO_LARGE: what is taken can be written again. */
export function decodeCheckpoint(text: string, uid: string): Checkpoint {
  const value = parse(text);
  if (typeof value.version === 'number' && value.version > version) {
    throw new HostWorkError('CHECKPOINT_NEWER', `it has version ${value.version}, this agent knows ${version}`);
  }
  const { key, process, hooks } = value;
  if (value.version !== version || typeof key !== 'string' || !isRecord(hooks)) throw invalid('it is no checkpoint');
  if (value.uid !== uid) throw invalid('it is of another UID');
  const records = Object.entries(hooks).flatMap(([name, record]) => {
    const known = recordOf(record);
    return known ? [[name, known] as const] : [];
  });
  const { pid, startTime } = isRecord(process) ? process : {};
  const isProcess = typeof pid === 'number' && typeof startTime === 'string';
  const checkpoint = { uid, key, ...(isProcess && { process: { pid, startTime } }), hooks: new Map(records) };
  encodeCheckpoint(checkpoint);
  return checkpoint;
}

function parse(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new HostWorkError('CHECKPOINT_INVALID', errorMessage(cause), { cause });
  }
  const unsafe = whyUnsafe(value, maxDepth);
  if (unsafe !== undefined || !isRecord(value)) throw invalid(unsafe ?? 'it is no object');
  return value;
}

function recordOf(value: unknown): HookRecord | undefined {
  if (!isRecord(value)) return undefined;
  const { stage, state, facts } = value;
  if (stage !== 'begun' && stage !== 'done') return undefined;
  return { stage, ...(isJson(state) && { state }), ...(isJson(facts) && { facts }) };
}

/** Of a value that JSON.parse gave. */
function isJson(value: unknown): value is Json {
  return value !== undefined;
}

function invalid(problem: string): HostWorkError {
  return new HostWorkError('CHECKPOINT_INVALID', problem);
}
