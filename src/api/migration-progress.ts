import { isRecord, memberAt } from '../base/index.ts';
import { annotations } from './labels.ts';
import type { VirtualMachineInstance } from './vmi.ts';

/** How far a guest that leaves its node has come, in the words of the agent there. */
export interface MigrationProgress {
  /** UID of the migration: an annotation of an earlier one says nothing of this one. */
  readonly migration: string;
  /** PreCopy, Paused or PostCopy. */
  readonly mode: string;
  /** TCP ports of the target node that the streams lead to. */
  readonly ports: readonly number[];
  /** Sent so far; memory that was changed meanwhile counts again. */
  readonly processedBytes: number;
  readonly remainingBytes: number;
  readonly bytesPerSecond: number;
  /** While the rate stays as it is. Absent: nothing moves. */
  readonly leftSeconds?: number;
  /** RFC 3339 */
  readonly at: string;
}

/** Of the migration that is under way now. Undefined: none is, or its agent has published nothing yet. */
export function publishedProgress({ metadata, status }: VirtualMachineInstance): MigrationProgress | undefined {
  const state: unknown = status?.migrationState;
  const isUnderWay = isRecord(state) && state.completed !== true && !state.endTimestamp;
  const text: unknown = metadata.annotations?.[annotations.migrationProgress];
  if (!isUnderWay || typeof text !== 'string' || text.length > maxLength) return undefined;
  const progress = parse(text);
  return progress?.migration === state.migrationUid ? progress : undefined;
}

const maxLength = 2_000;

function parse(text: string): MigrationProgress | undefined {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return undefined;
  }
  const [migration, mode, at] = ['migration', 'mode', 'at'].map((name) => memberAt(read, name));
  const ports = memberAt(read, 'ports');
  const [processedBytes, remainingBytes, bytesPerSecond, leftSeconds] = [
    'processedBytes',
    'remainingBytes',
    'bytesPerSecond',
    'leftSeconds',
  ].map((name) => count(memberAt(read, name)));
  if (typeof migration !== 'string' || typeof mode !== 'string' || typeof at !== 'string') return undefined;
  if (processedBytes === undefined || remainingBytes === undefined || bytesPerSecond === undefined) return undefined;
  return {
    ...{ migration, mode, at, processedBytes, remainingBytes, bytesPerSecond },
    ports: Array.isArray(ports) ? ports.filter((port) => typeof port === 'number') : [],
    ...(leftSeconds !== undefined && { leftSeconds }),
  };
}

function count(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}
