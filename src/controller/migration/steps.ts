import type { Pod } from '../../api/index.ts';
import type { ObjectEvent, Step } from '../../reconcile/index.ts';
import type { Superseded } from './observation.ts';

/** What may be done about a migration outside of the migration itself. */
export interface MigrationStepArgs {
  /** The launcher on the target runs as this user from now on. */
  setRuntimeUser: { readonly user: number };
  createTargetPod: { readonly pod: Pod; readonly leftovers: readonly Pod[] };
  deleteTargetPod: { readonly pod: Pod; readonly why: string };
  /** From here on both agents see the migration. */
  handOver: { readonly pod: Pod };
  /** Ends it for both agents, before anything of the guest has moved. */
  failState: { readonly reason: string };
  /** Asks both agents to end it. */
  requestAbort: object;
  deleteMigration: object;
  collect: { readonly superseded: readonly Superseded[] };
  noteOnVmi: ObjectEvent;
}

export type MigrationStep = Step<MigrationStepArgs>;
