import type { LiveUpdateSettings, ResourceType } from '../api/index.ts';
import type { Gates } from '../cluster-config/index.ts';
import type { FieldError } from './errors.ts';
import type { ApiObject } from './object.ts';
import type { StrategicSchema } from './patch/index.ts';

export interface Column {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'boolean' | 'date';
  readonly format?: 'name';
  readonly description: string;
  /** 0 is always shown, 1 with `-o wide`. */
  readonly priority: 0 | 1;
  /** `now` is for ages. */
  readonly cell: (object: ApiObject, now: Date) => string | number | boolean;
}

/** What happens to an object of a type on its way into the store. All functions are pure; objects given may be changed. */
export interface Admission {
  /** Adds what KubeVirt's webhooks write into every object before its schema is looked at. Members may have any form yet. */
  readonly complete?: (object: ApiObject) => void;
  /** Fills in defaults. `old` is the stored object of an update. */
  readonly fill?: (object: ApiObject, context: AdmissionContext) => void;
  readonly validate?: (object: ApiObject, context: AdmissionContext) => FieldError[];
  /** Why the object is refused though its form is right, as a webhook of KubeVirt would answer. */
  readonly deny?: (object: ApiObject, context: AdmissionContext, stored: StoredObjects) => Denial | undefined;
}

/** By a webhook, whose name clients see in the message, or by the API server's own admission. */
export type Denial =
  | { readonly webhook: string; readonly message: string }
  | { readonly webhook?: undefined; readonly message: string };

export interface AdmissionContext {
  readonly old: ApiObject | undefined;
  /** Its spec is not that of `old`: what is wrong in one that stays as it is keeps nobody from writing. */
  readonly hasNewSpec: boolean;
  readonly now: Date;
  /** A program of the system itself, that may do what users may not. */
  readonly privileged: boolean;
  readonly randomUuid: () => string;
  readonly cluster: ClusterDefaults;
}

/** Objects that decide about others; shared, so never changed. */
export interface StoredObjects {
  vmi(namespace: string, name: string): ApiObject | undefined;
  /** Live migrations of one VMI. */
  migrations(namespace: string, vmiName: string): readonly ApiObject[];
  storageClass(name: string): ApiObject | undefined;
  /** Restores of the namespace into one VM. */
  restores(namespace: string, vmName: string): readonly ApiObject[];
  /** Of the namespace. */
  backups(namespace: string): readonly ApiObject[];
}

/** What the KubeVirt object and the host say about new virtual machines (`pkg/virt-config`). */
export interface ClusterDefaults {
  readonly architecture: 'amd64' | 'arm64' | 's390x';
  readonly networkBinding: 'bridge' | 'masquerade';
  /** `permitBridgeInterfaceOnPodNetwork`. */
  readonly bridgeOnPodNetwork: boolean;
  /** Machine types that new VMs may have, as patterns for file names. */
  readonly emulatedMachines: (architecture: string) => readonly string[];
  readonly gates: Gates;
  /** Socket of who signs the quotes of guests with TDX. */
  readonly qgsSocketPath: string;
  readonly cpuModel: string | undefined;
  readonly machineType: string | undefined;
  readonly evictionStrategy: string | undefined;
  /** User of new launchers: 0 with the gate Root, else what the server was told. undefined while no KubeVirt is deployed: VMIs have to wait for it. */
  readonly runtimeUser: 0 | 107 | undefined;
  /** undefined while no KubeVirt is deployed. */
  readonly liveUpdate: LiveUpdateSettings | undefined;
}

/** One resource that the server has. */
export interface ApiType extends ResourceType {
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  /** Defined by a CRD on a real cluster: generation, merge patches and required resourceVersion as custom resources have. */
  readonly custom: boolean;
  readonly statusSubresource: boolean;
  /** Whether a created object may bring its status; types without the sub-resource always keep it. */
  readonly statusOnCreate: 'kept' | 'dropped';
  /** Sub-resources besides `status`, for discovery. */
  readonly subresources: readonly Subresource[];
  /** The server makes these objects itself. */
  readonly readOnly: boolean;
  /** A PUT without resourceVersion is allowed. */
  readonly unconditionalUpdate: boolean;
  /** Selectable fields besides metadata.name and metadata.namespace. */
  readonly fields: readonly string[];
  readonly nameRule: 'subdomain' | 'label' | 'path';
  /** Seconds that pods have; other types are deleted at once (undefined). */
  readonly gracePeriodSeconds: ((object: ApiObject) => number) | undefined;
  readonly strategic: StrategicSchema | undefined;
  readonly columns: readonly Column[];
  readonly admission: Admission;
}

export interface Subresource {
  readonly name: string;
  readonly group?: string;
  readonly version?: string;
  readonly kind: string;
  readonly verbs: readonly string[];
}

export const allVerbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'] as const;
export const readVerbs = ['get', 'list', 'watch'] as const;
