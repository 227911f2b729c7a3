import type { MigrationMetadata, MigrationState } from '../../../../api/index.ts';
import type { MigrationMemory } from '../../observe/index.ts';
import type { Facts } from '../facts.ts';
import type { Remember } from '../steps.ts';
import { isDecentralised } from './decentralised.ts';

/** One migration of a VMI away from this node, read once. */
export interface SourceView {
  readonly migrationUid: string;
  readonly state: MigrationState;
  /** The launcher's own account of this very migration; what it tells of another one counts for nothing. */
  readonly told: MigrationMetadata | undefined;
  readonly memory: MigrationMemory;
  /** The launcher has it, or had it: it is never sent a second time, also not by an agent that was started again. */
  readonly begun: boolean;
  readonly running: boolean;
}

/** Undefined: the VMI is not to leave this node, not in a way known here, or that is over in the API server, too. */
export function sourceView(facts: Facts): SourceView | undefined {
  const { vmi, observation } = facts;
  const state = vmi?.status?.migrationState;
  const { nodeName, domain, memory } = observation;
  if (isDecentralised(facts)) return undefined;
  const migrationUid = state?.migrationUid;
  if (!state || !migrationUid || state.sourceNode !== nodeName || state.endTimestamp) return undefined;
  const noted = domain.kind === 'present' ? domain.domain.Spec?.Metadata?.KubeVirt?.Migration : undefined;
  const told = noted?.UID === migrationUid ? noted : undefined;
  const own = memory.migration?.migrationUid === migrationUid ? memory.migration : { migrationUid };
  return {
    migrationUid,
    state,
    told,
    memory: own,
    begun: told !== undefined || own.sentMs !== undefined || Boolean(state.startTimestamp),
    running: Boolean(told?.StartTimestamp && !told.EndTimestamp),
  };
}

/** Kept beside what is known of the same migration; of another one nothing is kept. */
export function rememberMigration({ memory }: SourceView, more: Partial<MigrationMemory>): Remember {
  return { migration: { ...memory, ...more } };
}
