import type { ExplainQuarantine, Key } from '../../../api/index.ts';
import { errorCode } from '../../../base/index.ts';
import { isOvertaken } from '../decide/index.ts';
import type { Observation } from '../observe/index.ts';
import type { VmiEvent } from '../ports.ts';
import type { Pass } from '../status/index.ts';
import { describeCause, type Written } from './retry.ts';

export interface QuarantineOptions {
  /** The same failure this often in a row. */
  readonly failures: number;
}

export interface QuarantineChange {
  readonly kind: 'entered' | 'left';
  readonly entry: ExplainQuarantine;
}

interface Streak {
  readonly uid: string;
  /** What the VMI asks for: another wish is another attempt. */
  readonly wish: string;
  /** Step that fails, `write` or `pass`, and its error code. */
  readonly where: string;
  readonly code: string;
  /** Pictures of the domain during the streak: a start that fails goes through the same few each time. */
  readonly pictures: Set<string>;
  failures: number;
  problem: string;
  since: string | undefined;
}

interface Failure {
  readonly where: string;
  readonly code: string;
  readonly problem: string;
}

/**
 * VMIs that fail the same way over and over. Such a key is told about once and tried at the longest back-off. It is out again
 * when what failed goes through, when the VMI asks for something else, or when its domain shows a new picture. An API server
 * that does not answer is no fault of a VMI and does not count.
 */
export class Quarantine {
  readonly #options: QuarantineOptions;
  readonly #streaks = new Map<Key, Streak>();

  constructor(options: QuarantineOptions) {
    this.#options = options;
  }

  of(key: Key): ExplainQuarantine | undefined {
    const streak = this.#streaks.get(key);
    return streak?.since === undefined ? undefined : entryOf(streak, streak.since);
  }

  /** Quarantined keys. */
  keys(): Key[] {
    return [...this.#streaks].filter(([, { since }]) => since !== undefined).map(([key]) => key);
  }

  forget(key: Key): void {
    this.#streaks.delete(key);
  }

  /** A pass that came to its end. */
  judge(key: Key, pass: Pass, written: Written): QuarantineChange | undefined {
    const { observation } = pass;
    const left = this.#leaveIfChanged(key, observation);
    const failure = failureOf(pass, written);
    if (failure) return this.#count(key, observation, failure) ?? left;
    const streak = this.#streaks.get(key);
    return (streak && hasGone(streak.where, pass, written) ? this.#leave(key) : undefined) ?? left;
  }

  /** A pass that threw. */
  judgeFault(key: Key, uid: string, at: Date, error: unknown): QuarantineChange | undefined {
    const failure = { where: 'pass', code: errorCode(error) ?? '', problem: describeCause(error) };
    const streak = this.#streaks.get(key);
    const isSame = streak?.where === 'pass' && streak.code === failure.code;
    return this.#fail(key, isSame ? streak : newStreak(uid, streak?.wish ?? '', failure), failure, at);
  }

  #count(key: Key, observation: Observation, failure: Failure): QuarantineChange | undefined {
    const known = this.#streaks.get(key);
    const isSame = known?.where === failure.where && known.code === failure.code;
    const streak = isSame ? known : newStreak(observation.uid, wishOf(observation), failure);
    const left = isSame ? undefined : this.#leave(key);
    streak.pictures.add(pictureOf(observation));
    return this.#fail(key, streak, failure, observation.now) ?? left;
  }

  #fail(key: Key, streak: Streak, failure: Failure, at: Date): QuarantineChange | undefined {
    streak.failures++;
    streak.problem = failure.problem;
    this.#streaks.set(key, streak);
    if (streak.since !== undefined || streak.failures < this.#options.failures) return undefined;
    streak.since = at.toISOString();
    return { kind: 'entered', entry: entryOf(streak, streak.since) };
  }

  #leaveIfChanged(key: Key, observation: Observation): QuarantineChange | undefined {
    const streak = this.#streaks.get(key);
    if (!streak) return undefined;
    if (streak.uid !== observation.uid || streak.wish !== wishOf(observation)) return this.#leave(key);
    const picture = pictureOf(observation);
    if (streak.since !== undefined && !streak.pictures.has(picture)) return this.#leave(key);
    streak.pictures.add(picture);
    return undefined;
  }

  #leave(key: Key): QuarantineChange | undefined {
    const entry = this.of(key);
    this.#streaks.delete(key);
    return entry && { kind: 'left', entry };
  }
}

function newStreak(uid: string, wish: string, { where, code, problem }: Failure): Streak {
  return { uid, wish, where, code, problem, pictures: new Set(), failures: 0, since: undefined };
}

function entryOf({ failures, where, problem }: Streak, since: string): ExplainQuarantine {
  return { since, failures, where, problem };
}

function wishOf({ vmi, syncFingerprint }: Observation): string {
  if (!('vmi' in vmi)) return vmi.kind;
  const { metadata, status } = vmi.vmi;
  return [metadata.deletionTimestamp ? 'ends' : 'lives', status?.phase ?? '', syncFingerprint].join(' ');
}

function pictureOf({ domain, launcher }: Observation): string {
  const picture =
    domain.kind === 'present' ? `${domain.domain.Status.Status}/${domain.domain.Status.Reason}` : domain.kind;
  return `${picture} ${launcher.kind}`;
}

function failureOf({ outcomes }: Pass, written: Written): Failure | undefined {
  for (const { step, outcome } of outcomes) {
    if (outcome.kind !== 'failed' || isOvertaken(outcome.error)) continue;
    return { where: step, code: outcome.error.code, problem: outcome.error.message };
  }
  // Content that the API server refuses stays refused; one that is away comes back.
  if (written.kind !== 'failed' || errorCode(written.error) !== 'INVALID') return undefined;
  return { where: 'write', code: 'INVALID', problem: describeCause(written.error) };
}

function hasGone(where: string, { decision, outcomes }: Pass, written: Written): boolean {
  if (where === 'pass') return true;
  if (where === 'write') return written.kind === 'written' || written.kind === 'unchanged';
  if (decision.healthy === true) return true;
  return outcomes.some(({ step, outcome }) => step === where && outcome.kind === 'done');
}

/** Told once per stay. `latestMs`: no pause between two tries is longer; that of a start that fails is shorter, say. */
export function quarantineEvent({ failures, problem }: ExplainQuarantine, latestMs: number): VmiEvent {
  const message =
    `the same failure ${failures} times in a row: ${problem}. It is tried again by itself, each time after ` +
    `${Math.round(latestMs / 1000)} s at the latest, and at once when the VirtualMachineInstance changes; ` +
    '`virt-node why` on its node tells the whole story';
  return { type: 'Warning', reason: 'Quarantined', message };
}
