import { Histogram, type Registry } from 'prom-client';
import type { VirtualMachineInstance, VirtualMachineInstanceMigration } from '../../api/index.ts';

/** Seconds. */
const buckets = [0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 90, 120, 180, 300, 600, 1_200, 1_800, 3_600];

/** How long VMIs and migrations take from phase to phase, read from the time stamps in their status: whole seconds, as they have them. */
export class PhaseTimes {
  readonly #between: Histogram<'phase' | 'last_phase'>;
  readonly #fromCreation: Histogram<'phase'>;
  readonly #fromDeletion: Histogram<'phase'>;
  readonly #migrations: Histogram<'phase'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const ofPhase = (name: string, help: string) =>
      new Histogram({ name, help, labelNames: ['phase'] as const, buckets, registers });
    const name = 'kubevirt_vmi_phase_transition_time';
    this.#between = new Histogram({
      name: `${name}_seconds`,
      help: 'Histogram of VM phase transitions duration between different phases in seconds.',
      labelNames: ['phase', 'last_phase'] as const,
      ...{ buckets, registers },
    });
    const help = (of: string, from: string) =>
      `Histogram of ${of} phase transitions duration from ${from} time in seconds.`;
    this.#fromCreation = ofPhase(`${name}_from_creation_seconds`, help('VM', 'creation'));
    this.#fromDeletion = ofPhase(`${name}_from_deletion_seconds`, help('VM', 'deletion'));
    const migration = 'kubevirt_vmi_migration_phase_transition_time_from_creation_seconds';
    this.#migrations = ofPhase(migration, help('VM migration', 'creation'));
  }

  /** A watch has shown a VMI in a newer state. */
  vmiChanged(older: VirtualMachineInstance, newer: VirtualMachineInstance): void {
    const [last, phase] = [older.status?.phase ?? '', newer.status?.phase ?? ''];
    if (last === phase || older.metadata.uid !== newer.metadata.uid) return;
    const at = stampOf(newer, phase);
    const created = newer.metadata.creationTimestamp;
    observe(this.#between, { phase, last_phase: last }, last === '' ? created : stampOf(newer, last), at);
    observe(this.#fromCreation, { phase }, created, at);
    observe(this.#fromDeletion, { phase }, newer.metadata.deletionTimestamp, at);
  }

  migrationChanged(older: VirtualMachineInstanceMigration, newer: VirtualMachineInstanceMigration): void {
    const phase = newer.status?.phase ?? '';
    if ((older.status?.phase ?? '') === phase || older.metadata.uid !== newer.metadata.uid) return;
    observe(this.#migrations, { phase }, newer.metadata.creationTimestamp, stampOf(newer, phase));
  }
}

interface Stamped {
  readonly status?: {
    readonly phaseTransitionTimestamps?: readonly {
      readonly phase: string;
      readonly phaseTransitionTimestamp: string;
    }[];
  };
}

function stampOf({ status }: Stamped, phase: string): string | undefined {
  const stamps = status?.phaseTransitionTimestamps;
  if (!Array.isArray(stamps)) return undefined;
  return stamps.find((stamp) => stamp?.phase === phase)?.phaseTransitionTimestamp;
}

/** A time that is not there, or no time, is not counted; clocks that differ make no negative one. */
function observe<L extends string>(
  histogram: Histogram<L>,
  labels: Record<L, string>,
  from: string | null | undefined,
  to: string | undefined,
): void {
  const seconds = (Date.parse(to ?? '') - Date.parse(from ?? '')) / 1000;
  if (Number.isFinite(seconds)) histogram.observe(labels, Math.max(0, seconds));
}
