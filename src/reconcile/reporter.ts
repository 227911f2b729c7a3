import { type Key, stepsAndParts } from '../api/index.ts';
import { errorCode, type Logger } from '../base/index.ts';
import type { CrashLoopChange } from './crash-loop-backoff.ts';
import type { DecisionLog, RuleRun } from './decision-log.ts';
import { type DecisionRecord, faultRecord } from './decision-record.ts';
import { describeCause } from './next.ts';
import type { ObjectEvent } from './steps.ts';

/** Which key a report is about, at which time. */
export interface Observed {
  readonly key: Key;
  /** Of the object the reconcile is about; empty when nothing is known. */
  readonly uid: string;
  /** Wall clock, for what others read. */
  readonly now: Date;
  /** What was decided before on this UID, and since when without another rule in between; undefined: nothing is kept. */
  readonly lastRule?: RuleRun | undefined;
}

/** How the reconciled kind is called and described. */
export interface ReportWords<Seen> {
  /** Log field that holds the key: `vmi`. */
  readonly field: string;
  /** In sentences: `the VMI`. */
  readonly object: string;
  /** Fields of the log line of a decision. */
  readonly logFields: (seen: Seen) => Readonly<Record<string, unknown>>;
}

export interface ReporterDeps<Observation, Seen> {
  readonly decisions: DecisionLog<Seen>;
  readonly words: ReportWords<Seen>;
  /** Records an event on the observed object, if there is one. True: it was recorded. */
  readonly recordEvent: (observation: Observation, event: ObjectEvent) => boolean;
  /** The event of a key that entered crash-loop back-off; undefined: none. */
  readonly crashLoopEvent: (entry: CrashLoopChange['entry']) => ObjectEvent | undefined;
  readonly log: Logger;
}

const eventsPerRecord = 8;

/** All that a reconcile makes known: the kept decisions, log lines, and events on the object. */
export class Reporter<Observation extends Observed, Seen> {
  readonly #deps: ReporterDeps<Observation, Seen>;

  constructor(deps: ReporterDeps<Observation, Seen>) {
    this.#deps = deps;
  }

  /** Kept for "explain"; logged when it differs from the decision before. */
  note({ key, uid }: Observation, made: DecisionRecord<Seen>): DecisionRecord<Seen> {
    const { decisions } = this.#deps;
    // Of an object that was never here nothing is kept.
    if (uid === '' && !decisions.has(key)) return made;
    const { record, isNew } = decisions.add(key, made);
    if (isNew) this.#logDecision(key, record);
    return record;
  }

  /** A reconcile that threw. */
  fault(key: Key, uid: string | undefined, at: Date, error: unknown, seen: Seen): DecisionRecord<Seen> {
    const { decisions, words, log } = this.#deps;
    const ofUid = uid ?? decisions.last(key)?.uid ?? '';
    const { record, isNew } = decisions.add(key, faultRecord(at, ofUid, error, seen));
    const fields = { [words.field]: key, uid: ofUid, err: error };
    if (isNew) log.error(fields, `a reconcile of ${words.object} failed in this program`);
    return record;
  }

  events(record: DecisionRecord<Seen>, observation: Observation, events: readonly ObjectEvent[]): void {
    const recorded = events.filter((event) => this.#deps.recordEvent(observation, event));
    if (recorded.length === 0) return;
    record.events = [...(record.events ?? []), ...recorded.map(({ reason }) => reason)].slice(-eventsPerRecord);
  }

  crashLoop(record: DecisionRecord<Seen>, observation: Observation, { kind, entry }: CrashLoopChange): void {
    const { words, log, crashLoopEvent } = this.#deps;
    const fields = { [words.field]: observation.key, uid: observation.uid, ...entry };
    if (kind === 'left') {
      log.info(fields, `${words.object} left crash-loop back-off`);
      return;
    }
    log.warn(fields, `${words.object} is in crash-loop back-off`);
    const event = crashLoopEvent(entry);
    if (event) this.events(record, observation, [event]);
  }

  retry(key: Key, error: unknown, retryInMs: number): void {
    const { words, log } = this.#deps;
    const code = errorCode(error);
    const fields = { [words.field]: key, code, reason: describeCause(error), retryInMs: Math.round(retryInMs) };
    log.warn(fields, `${words.object} is tried again`);
  }

  spinning(key: Key): void {
    const { decisions, words, log } = this.#deps;
    const { uid, rule } = decisions.last(key) ?? {};
    log.warn({ [words.field]: key, uid, rule }, 'the same decision is taken over and over');
  }

  /** One line per decision that differs from the one before; what changes nothing is logged for debugging only. */
  #logDecision(key: Key, record: DecisionRecord<Seen>): void {
    const { words, log } = this.#deps;
    const { uid, route, rule, seen, newPhase, steps, problem } = record;
    const lines = stepsAndParts(steps);
    const troubles = lines.filter(({ because }) => because).map(({ step, because }) => `${step}: ${because}`);
    const took = lines.flatMap(({ step, tookMs }) => (tookMs === undefined ? [] : [[step, tookMs]]));
    const isQuiet = steps.length === 0 && !newPhase && !problem;
    log[isQuiet ? 'debug' : 'info'](
      {
        [words.field]: key,
        uid,
        ...(route !== '' && { route }),
        rule,
        ...words.logFields(seen),
        ...(newPhase && { newPhase }),
        steps: steps.map(({ step }) => step),
        tookMs: Object.fromEntries(took),
        troubles,
        ...(problem !== undefined && { problem }),
      },
      'decided',
    );
  }
}
