import type {
  ConditionState,
  PersistentVolumeClaim,
  Pod,
  Service,
  VirtualMachine,
  VirtualMachineBackup,
  VirtualMachineExport,
  VolumeBackup,
} from '../../api/index.ts';
import type { Observed } from '../../reconcile/index.ts';
import type { Access } from './access.ts';

/** A claim that is exported. */
export interface SourceVolume {
  readonly claim: PersistentVolumeClaim;
  /** It holds a VM's disk, and not files of a user. */
  readonly isDisk: boolean;
}

/** A claim that is still to be made of a VolumeSnapshot. */
export interface WantedClaim {
  readonly name: string;
  readonly backup: VolumeBackup;
  readonly isDisk: boolean;
  readonly restoreSize: string | number | undefined;
}

/** What is exported, and whether it can be now; plain data. */
export interface SourceFacts {
  readonly volumes: readonly SourceVolume[];
  readonly wanted: readonly WantedClaim[];
  /** Why it cannot be exported now, as upstream's reason and in words. */
  readonly problem?: { readonly reason: string; readonly message: string };
  /** There is nothing that could be exported: nobody waits for a pod. */
  readonly isSkipped: boolean;
  readonly condition?: ConditionState;
  readonly vmName?: string;
  /** What its launcher serves, and no volume of the pod has. */
  readonly backup?: VirtualMachineBackup;
  /** Whose manifest is exported, too. */
  readonly vm?: Pick<VirtualMachine, 'metadata' | 'spec' | 'status'>;
}

export interface PresentExport extends Observed {
  readonly kind: 'present';
  readonly vmExport: VirtualMachineExport;
  readonly source: SourceFacts;
  readonly expiresAt: Date;
  readonly service: Service | undefined;
  readonly pod: Pod | undefined;
  /** Something of that name is another's. */
  readonly occupied: string | undefined;
  /** Pods that write to its claims, or could; read where there is no exporter pod. */
  readonly users: readonly string[];
  /** Who signs its certificate, and how clients come to it. */
  readonly access: Access;
  /** What pods are made with now. */
  readonly certificates: CertificateTimes;
}

/** How long a server's certificate lasts, and what is left of it when it is replaced. */
export interface CertificateTimes {
  readonly durationMs: number;
  readonly renewBeforeMs: number;
}

export interface AbsentExport extends Observed {
  readonly kind: 'absent';
}

/** The API server did not answer what a decision depends on. */
export interface UnclearExport extends Observed {
  readonly kind: 'unclear';
  readonly vmExport: VirtualMachineExport;
  readonly reason: string;
}

export type ExportObservation = PresentExport | AbsentExport | UnclearExport;
