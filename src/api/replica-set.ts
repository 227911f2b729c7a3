import type { Condition, KubeObject } from './kubernetes.ts';
import type { LabelSelector } from './label-selector.ts';
import type { VmiSpec } from './vmi.ts';

/** Status of what keeps a number of others: the sub-resource `scale` reads it. */
export interface ReplicaStatus {
  replicas?: number;
  readyReplicas?: number;
  conditions?: Condition[];
  /** The selector in its text form, for autoscalers. */
  labelSelector?: string;
}

/** Keeps a number of VMIs that are all alike. */
export interface VirtualMachineInstanceReplicaSet extends KubeObject {
  spec: {
    /** 1 unless given. */
    replicas?: number;
    paused?: boolean;
    selector: LabelSelector;
    template: {
      metadata?: {
        name?: string;
        generateName?: string;
        labels?: Record<string, string>;
        annotations?: Record<string, string>;
      };
      spec: VmiSpec;
    };
  };
  status?: ReplicaStatus;
}

export function wantedReplicas({ spec }: { readonly spec?: { readonly replicas?: number | null } }): number {
  return spec?.replicas ?? 1;
}
