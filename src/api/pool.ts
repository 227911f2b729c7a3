import type { KubeObject } from './kubernetes.ts';
import type { LabelRequirement, LabelSelector } from './label-selector.ts';
import type { ReplicaStatus } from './replica-set.ts';
import type { VirtualMachine } from './vmi.ts';

export interface PoolSelectionPolicy {
  /** `Random` unless given. */
  sortPolicy?: 'AscendingOrder' | 'DescendingOrder' | 'Newest' | 'Oldest' | 'Random';
  /** Only these VMs; of both kinds, all have to hold. */
  selectors?: { labelSelector?: LabelSelector; nodeSelectorRequirementMatcher?: LabelRequirement[] };
}

/** `Offline`: claims of a VM that goes stay. */
export type StatePreservation = 'Disabled' | 'Offline' | 'Online';

/** Keeps a number of VMs that are made from one template, each with an index of its own (pool.kubevirt.io/v1beta1). */
export interface VirtualMachinePool extends KubeObject {
  spec: {
    /** 1 unless given. */
    replicas?: number;
    paused?: boolean;
    selector: LabelSelector;
    virtualMachineTemplate: {
      metadata?: { labels?: Record<string, string>; annotations?: Record<string, string> };
      spec: VirtualMachine['spec'];
    };
    nameGeneration?: { appendIndexToConfigMapRefs?: boolean; appendIndexToSecretRefs?: boolean };
    /** A number, or a share as `50%`; `100%` unless given, and never less than 1. */
    maxUnavailable?: number | string;
    /** One of them; proactive unless given. */
    scaleInStrategy?: {
      unmanaged?: object;
      opportunistic?: { statePreservation?: StatePreservation };
      proactive?: { statePreservation?: StatePreservation; selectionPolicy?: PoolSelectionPolicy };
    };
    /** One of them; proactive unless given. */
    updateStrategy?: {
      unmanaged?: object;
      opportunistic?: object;
      proactive?: { selectionPolicy?: PoolSelectionPolicy };
    };
    autohealing?: {
      /** 3 unless given. */
      startUpFailureThreshold?: number;
      /** As Go writes durations; `5m` unless given. */
      minFailingToStartDuration?: string;
    };
  };
  status?: ReplicaStatus;
}
