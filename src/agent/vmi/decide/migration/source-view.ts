import type { MigrationMetadata, MigrationState } from '../../../../api/index.ts';
import { type Remember, type SourceMemory, sourceMemory } from '../../observe/index.ts';
import type { Facts } from '../facts.ts';
import { endOf } from './decentralised.ts';

/** One migration of a VMI away from this node, read once. */
export interface SourceView {
  readonly migrationUid: string;
  readonly state: MigrationState;
  /** The launcher's own account of this very migration; what it reports of another one counts for nothing. */
  readonly reported: MigrationMetadata | undefined;
  readonly memory: SourceMemory;
  /** The launcher has it, or had it: it is never sent a second time, also not by an agent that was started again. */
  readonly begun: boolean;
  readonly running: boolean;
}

/** Undefined: the VMI is not to leave this node, not in a way known here, or that is over in the API server, too. */
export function sourceView(facts: Facts): SourceView | undefined {
  const { vmi, observation } = facts;
  const state = vmi?.status?.migrationState;
  const { nodeName, domain, memory } = observation;
  const migrationUid = state?.migrationUid;
  if (!state || !migrationUid || state.sourceNode !== nodeName || isOver(facts)) return undefined;
  const noted = domain.kind === 'present' ? domain.domain.Spec?.Metadata?.KubeVirt?.Migration : undefined;
  const reported = noted?.UID === migrationUid ? noted : undefined;
  const own = sourceMemory(memory, migrationUid);
  return {
    migrationUid,
    state,
    reported,
    memory: own,
    begun: reported !== undefined || own.order.kind === 'sent' || Boolean(state.startTimestamp),
    running: Boolean(reported?.StartTimestamp && !reported.EndTimestamp),
  };
}

/** To another VMI object it is over when that one's agent has finished it: the end alone says that the guest runs there. */
function isOver(facts: Facts): boolean {
  const { endTimestamp, completed, failed } = facts.vmi?.status?.migrationState ?? {};
  const end = endOf(facts);
  if (end === 'source') return Boolean(endTimestamp) && (completed === true || failed === true);
  return end === 'target' || Boolean(endTimestamp);
}

/** The guest runs at the target, in post-copy or in the last moment: by the source launcher's word, or by the target's, which may be first. */
export function hasSwitched({ state, reported, running }: SourceView): boolean {
  // A launcher that does not say when it began is believed about its mode all the same: to cut its streams would end the guest.
  if (reported && !reported.EndTimestamp && reported.Mode === 'PostCopy') return true;
  return running && Boolean(state.targetNodeDomainReadyTimestamp);
}

/** First try of this process to begin it. */
export function firstTryMs({ memory: { order } }: SourceView): number | undefined {
  return order.kind === 'none' ? undefined : order.firstTryMs;
}

/** Kept beside what is known of the same migration; of another one nothing is kept. */
export function rememberMigration({ memory }: SourceView, more: Partial<SourceMemory>): Remember {
  return { migration: { ...memory, ...more } };
}
