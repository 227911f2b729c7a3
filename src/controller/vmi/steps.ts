import type { ConditionState, Pod } from '../../api/index.ts';
import type { Step } from '../../reconcile/index.ts';
import type { EntryChanges } from '../synced-metadata.ts';

/** What may be done about a VMI outside of the VMI itself. */
export interface VmiStepArgs {
  /** `leftovers`: foreign pods, or of a controller that ended before it could record them; they go before. */
  createPod: { readonly pod: Pod; readonly leftovers: readonly Pod[] };
  /** The claim on which its TPM and EFI variables are kept. */
  createStateClaim: object;
  deletePods: { readonly pods: readonly Pod[] };
  /** Pods of which the VMI is no more, where no garbage collector comes by. */
  deleteOrphans: { readonly pods: readonly Pod[] };
  /** `labels`: what the pod is to carry, too; in the same request. */
  setPodCondition: { readonly pod: Pod; readonly condition: ConditionState; readonly labels?: EntryChanges };
  createAttachmentPod: { readonly pod: Pod };
  deleteAttachmentPods: { readonly pods: readonly Pod[] };
  /** Null takes one away. */
  annotatePod: { readonly pod: Pod; readonly annotations: EntryChanges };
  labelPod: { readonly pod: Pod; readonly labels: EntryChanges };
}

export type VmiStep = Step<VmiStepArgs>;
