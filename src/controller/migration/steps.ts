import type {
  PersistentVolumeClaim,
  Pod,
  VirtualMachineInstance,
  VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import type { ObjectEvent, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import type { AttachmentPods, LauncherPods } from '../pod/index.ts';
import type { NamespaceQuotas } from '../quota/index.ts';
import type { PresentMigration, Superseded } from './observation.ts';

/** What may be done about a migration outside of the migration itself. */
export interface MigrationStepArgs {
  /** The launcher on the target runs as this user from now on. */
  setRuntimeUser: { readonly user: number };
  createTargetPod: { readonly pod: Pod; readonly leftovers: readonly Pod[] };
  /** On which the TPM and the EFI variables are kept on the target. */
  createStateClaim: object;
  /** The target's claim is the VM's, and `sources` are no more. */
  handStateOver: { readonly claim: PersistentVolumeClaim; readonly sources: readonly PersistentVolumeClaim[] };
  deleteStateClaim: { readonly claim: PersistentVolumeClaim };
  createAttachmentPod: { readonly pod: Pod };
  deleteAttachments: { readonly pods: readonly Pod[] };
  deleteTargetPod: { readonly pod: Pod; readonly why: string };
  /** The VMI says of one half of a migration by what the other one is found. */
  announce: object;
  /** It says where the guest is, for the other side. */
  describeSource: object;
  /** It does not list any more what was to be copied. */
  forgetCopies: object;
  /** From here on both agents see the migration. */
  handOver: { readonly pod: Pod };
  /** Ends it for both agents, before anything of the guest has moved. */
  failState: { readonly reason: string };
  /** Asks both agents to end it. */
  requestAbort: object;
  deleteMigration: object;
  collect: { readonly superseded: readonly Superseded[] };
  /** Makes the one migration that tries this one again. */
  tryAgain: object;
  noteOnVmi: ObjectEvent;
}

export type MigrationStep = Step<MigrationStepArgs>;

/** What steps work with. */
export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'list' | 'delete' | 'patch'>;
  readonly launchers: LauncherPods;
  readonly quotas: NamespaceQuotas;
  readonly attachmentPods: AttachmentPods;
  readonly ownPods: Pick<ReadYourWrites<Pod>, 'created'>;
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'saw'>;
  readonly migrations: Pick<ReadYourWrites<VirtualMachineInstanceMigration>, 'created'>;
  readonly observation: PresentMigration;
  /**
   * Takes the place of one more migration under way, before its pod can be seen; undefined: limits are reached. The place is given back when
   * the creation has ended; `isUnclear`: the pod may be there though no answer says so.
   */
  readonly reserve: () => ((isUnclear: boolean) => void) | undefined;
  readonly noteOnVmi: (vmi: VirtualMachineInstance, event: ObjectEvent) => void;
}
