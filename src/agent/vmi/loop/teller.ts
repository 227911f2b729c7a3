import type { Key } from '../../../api/index.ts';
import { errorCode, type Logger } from '../../../base/index.ts';
import {
  DecisionLog,
  type DecisionRecord,
  faultRecord,
  logDecision,
  nothingSeen,
  seenOf,
} from '../../serve/explain/index.ts';
import type { Observation } from '../observe/index.ts';
import type { AgentPorts, VmiEvent } from '../ports.ts';
import { type QuarantineChange, quarantineEvent } from './quarantine.ts';
import { describeCause } from './retry.ts';

export interface TellerDeps {
  readonly events: AgentPorts['events'];
  readonly log: Logger;
}

const eventsPerRecord = 8;

/** All that a pass tells: the kept decisions, log lines, and events on the VMI. */
export class Teller {
  readonly decisions = new DecisionLog();
  readonly #events: AgentPorts['events'];
  readonly #log: Logger;

  constructor({ events, log }: TellerDeps) {
    this.#events = events;
    this.#log = log;
  }

  /** Kept for "why"; logged when it differs from the decision before. */
  note({ key, uid }: Observation, made: DecisionRecord): DecisionRecord {
    // Of a VMI that never was here nothing is kept.
    if (uid === '' && !this.decisions.has(key)) return made;
    const { record, isNew } = this.decisions.add(key, made);
    if (isNew) logDecision(this.#log, key, record);
    return record;
  }

  /** A pass that threw. */
  fault(key: Key, observation: Observation | undefined, at: Date, error: unknown): DecisionRecord {
    const uid = observation?.uid ?? this.decisions.last(key)?.uid ?? '';
    const made = faultRecord(at, uid, error, observation ? seenOf(observation) : nothingSeen);
    const { record, isNew } = this.decisions.add(key, made);
    if (isNew) this.#log.error({ vmi: key, uid, err: error }, 'a pass over the VMI failed in this agent');
    return record;
  }

  events(record: DecisionRecord, { vmi }: Observation, events: readonly VmiEvent[]): void {
    if (vmi.kind !== 'present' || events.length === 0) return;
    for (const event of events) this.#events.record(vmi.stored, event);
    record.events = [...(record.events ?? []), ...events.map(({ reason }) => reason)].slice(-eventsPerRecord);
  }

  /** `latestMs`: the longest pause between two tries from now on. */
  quarantine(
    record: DecisionRecord,
    observation: Observation,
    { kind, entry }: QuarantineChange,
    latestMs: number,
  ): void {
    const fields = { vmi: observation.key, uid: observation.uid, ...entry };
    if (kind === 'left') {
      this.#log.info(fields, 'the VMI left quarantine');
      return;
    }
    this.#log.warn(fields, 'the VMI is in quarantine');
    this.events(record, observation, [quarantineEvent(entry, latestMs)]);
  }

  retry(key: Key, error: unknown, retryInMs: number): void {
    const fields = { vmi: key, code: errorCode(error), reason: describeCause(error), retryInMs: Math.round(retryInMs) };
    this.#log.warn(fields, 'the VMI is tried again');
  }

  spinning(key: Key): void {
    const { uid, rule } = this.decisions.last(key) ?? {};
    this.#log.warn({ vmi: key, uid, rule }, 'the same decision is taken over and over');
  }
}
