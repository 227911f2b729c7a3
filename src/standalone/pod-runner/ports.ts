import type { PersistentVolume, PersistentVolumeClaim, Pod, PodStatus } from '../../api/index.ts';
import type { HostDisk } from './host-disks.ts';
import type { SandboxNetwork } from './sandbox-plan.ts';

/** What the pod runner needs from the API: the pods of this node and the objects their volumes name. */
export interface PodSource {
  /** True once the list of pods is known to be complete: only then is a pod that is not in it really gone. */
  readonly isSynced: boolean;
  get(uid: string): Pod | undefined;
  list(): readonly Pod[];
  /** Calls back with the UID of every pod that appears, changes or goes. */
  subscribe(onChange: (uid: string) => void): () => void;
  /** Merges these fields into the pod's status; conditions by type. Gives up silently when the pod is gone. */
  patchStatus(pod: Pod, status: PodStatus): Promise<void>;
  /** Takes the pod out of the API now (grace 0), if it is still the same one. */
  delete(pod: Pod): Promise<void>;
  /** Keys and contents of a Secret or ConfigMap; undefined when there is none of that name. */
  readObject(kind: 'secret' | 'configMap', namespace: string, name: string): Promise<Map<string, Buffer> | undefined>;
  /** undefined when there is none of that name. */
  claim(namespace: string, name: string): Promise<PersistentVolumeClaim | undefined>;
  /** undefined when there is none of that name. */
  volume(name: string): Promise<PersistentVolume | undefined>;
  /** By the names of their volumes, of the VMI that owns the pod; empty without one. */
  hostDisksOf(pod: Pod): Promise<ReadonlyMap<string, HostDisk>>;
  recordEvent(pod: Pod, type: 'Normal' | 'Warning', reason: string, message: string): void;
}

/** The node's own network for pods, where it has one. */
export interface PodNetworks {
  /** The same for a UID each time; undefined: the pod shares the machine's network. Rejects with NodeError. */
  join(uid: string, name: string, namespace: string): Promise<SandboxNetwork | undefined>;
  /** Empty for a pod without an address of its own. */
  addressesOf(uid: string): readonly string[];
  /** Of a pod whose processes have ended. */
  release(uid: string): Promise<void>;
}
