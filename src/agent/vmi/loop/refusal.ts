import type { VirtualMachineInstance } from '../../../api/index.ts';
import type { WriteRefusal } from '../observe/index.ts';
import type { WriteResult } from '../ports.ts';
import { changedParts, clip, type Projection, type Reconciled, statusParts } from '../status/index.ts';

/** What is left out of a write, and what is reported to the user about it. */
export type Refused = NonNullable<Reconciled['refused']>;

export type RefusedWrite = Extract<WriteResult, { kind: 'refused' }>;

/** Pause before a refused part is tried again; doubled as long as it is refused. */
const firstWaitMs = 30_000;
const maxWaitMs = 600_000;

/** Of the API server's words: some repeat the whole object. */
const maxWordsBytes = 768;

export function activeRefusal(known: WriteRefusal | undefined, nowMs: number): Refused | undefined {
  return known && nowMs < known.retryAtMs ? known : undefined;
}

/** Within a pause nothing new is learned; the next one is twice as long. */
export function rememberRefusal(before: WriteRefusal | undefined, refused: Refused, nowMs: number): WriteRefusal {
  const { parts, message, makeRoom } = refused;
  const isSamePause = before !== undefined && nowMs < before.retryAtMs;
  const waitMs = before ? Math.min(isSamePause ? before.waitMs : before.waitMs * 2, maxWaitMs) : firstWaitMs;
  const retryAtMs = isSamePause ? before.retryAtMs : nowMs + waitMs;
  return { parts, message, makeRoom, retryAtMs, waitMs };
}

/**
 * What is tried next, in order: without one of the changed parts, for mostly one is the cause; then the essential only; then
 * that with room made for it. A part that was left out already is the cause of nothing more, so only the last two remain.
 */
export function suspects(
  { vmi }: Projection,
  base: VirtualMachineInstance,
  refusal: RefusedWrite,
  known: Refused | undefined,
): Refused[] {
  const isExhausted = known?.makeRoom === true;
  if (!vmi || isExhausted) return [];
  const single = known ? [] : changedParts(vmi, base).map((part) => [part]);
  const without = [...single, [...statusParts]].map((parts) => ({
    parts,
    message: wordsOf(parts, refusal),
    makeRoom: false,
  }));
  return refusal.code === 'TOO_LARGE' ? [...without, onlyEssential(wordsOf(statusParts, refusal))] : without;
}

/** The least that is ever written. */
export function onlyEssential(message: string): Refused {
  return { parts: [...statusParts], message, makeRoom: true };
}

function wordsOf(parts: readonly string[], { code, message }: RefusedWrite): string {
  const what = parts.length === statusParts.length ? 'anything but the essential' : `status.${parts.join(', status.')}`;
  const advice =
    code === 'TOO_LARGE'
      ? 'the object is too large: shorten its annotations or its spec'
      : 'see which admission policy or schema forbids it';
  return `the API server does not take ${what} of this VirtualMachineInstance (${advice}): ${clip(message, maxWordsBytes)}`;
}
