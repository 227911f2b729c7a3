import { randomInt, randomUUID } from 'node:crypto';
import type { Clock } from '../../base/index.ts';
import { readGates, readLiveUpdate, readTdxAttestation } from '../../cluster-config/index.ts';
import type { User } from '../access.ts';
import type { ApiType, ClusterDefaults, StoredObjects } from '../api-type.ts';
import { type ApiObject, at, stringAt } from '../object.ts';
import type { SchemaLibrary } from '../schema/index.ts';
import { collectionOf, type KeyLock, recordKey, type Store } from '../store/index.ts';

/** What reading and writing objects needs. */
export interface ObjectContext {
  readonly store: Store;
  readonly lock: KeyLock;
  readonly clock: Clock;
  readonly schemas: SchemaLibrary;
  readonly architecture: ClusterDefaults['architecture'];
  /** Without the gate Root. */
  readonly launcherUser: 0 | 107;
}

/** Namespace and name of one object of a type; the namespace is empty for cluster-scoped ones. */
export interface Target {
  readonly namespace: string;
  readonly name: string;
}

export function addressOf(type: ApiType, target: Target) {
  return { collection: collectionOf(type), namespace: target.namespace, name: target.name };
}

export function lockKey(type: ApiType, target: Target): string {
  return recordKey(addressOf(type, target));
}

const componentAccount =
  /^system:serviceaccount:[^:]+:kubevirt-(?:apiserver|controller|handler|synchronization-controller)$/;

/** KubeVirt's own programs and `system:masters` may do what KubeVirt's webhook for updates of VMIs keeps from users. */
export function isPrivileged(user: User): boolean {
  return user.groups.includes('system:masters') || componentAccount.test(user.name);
}

const alphabet = 'bcdfghjklmnpqrstvwxz2456789';

/** Five letters that make no words, as Kubernetes appends to `generateName`. */
export function randomSuffix(): string {
  return Array.from({ length: 5 }, () => alphabet[randomInt(alphabet.length)]).join('');
}

export const randomUuid = randomUUID;

/** May volumes be plugged into running VMs: by the VM's template, and into a VM's VMI alone. */
export function hotplugGates(context: ObjectContext): { declarative: boolean; ephemeral: boolean } {
  const { gates } = clusterDefaults(context);
  return { declarative: gates.DeclarativeHotplugVolumes, ephemeral: gates.HotplugVolumes };
}

/** Of a stored object, which is never changed: each write of any object asks. */
const known = new WeakMap<ApiObject, ClusterDefaults>();

type Surroundings = Pick<ObjectContext, 'architecture' | 'launcherUser'>;

/** Reads the KubeVirt object (the last one with a phase) for defaults of new virtual machines. */
export function clusterDefaults(context: ObjectContext): ClusterDefaults {
  const found = context.store
    .list('kubevirt.io/kubevirts')
    .findLast(({ object }) => stringAt(object, 'status', 'phase'))?.object;
  if (!found) return readDefaults(undefined, context);
  const before = known.get(found);
  if (before) return before;
  const defaults = readDefaults(found, context);
  known.set(found, defaults);
  return defaults;
}

function readDefaults(found: ApiObject | undefined, { architecture, launcherUser }: Surroundings): ClusterDefaults {
  const configuration = at(found, 'spec', 'configuration');
  const gates = readGates(configuration);
  const binding = stringAt(configuration, 'network', 'defaultNetworkInterface');
  return {
    architecture,
    networkBinding: binding === 'masquerade' ? 'masquerade' : 'bridge',
    bridgeOnPodNetwork: at(configuration, 'network', 'permitBridgeInterfaceOnPodNetwork') !== false,
    emulatedMachines: (of) => emulatedMachines(configuration, of),
    gates,
    qgsSocketPath: readTdxAttestation(configuration).qgsSocketPath,
    cpuModel: stringAt(configuration, 'cpuModel') || undefined,
    machineType:
      stringAt(configuration, 'architectureConfiguration', architecture, 'machineType') ||
      stringAt(configuration, 'machineType') ||
      undefined,
    evictionStrategy: stringAt(configuration, 'evictionStrategy') || undefined,
    runtimeUser: found === undefined ? undefined : gates.Root ? 0 : launcherUser,
    liveUpdate: found === undefined ? undefined : readLiveUpdate(configuration),
  };
}

/** As upstream has it (pkg/virt-config): the older field, that of the architecture, and what there is without either. */
const usualMachines: Readonly<Record<string, readonly string[]>> = {
  amd64: ['q35*', 'pc-q35*'],
  arm64: ['virt*'],
  s390x: ['s390-ccw-virtio*'],
};

function emulatedMachines(configuration: unknown, architecture: string): readonly string[] {
  const chosen = [
    at(configuration, 'emulatedMachines'),
    at(configuration, 'architectureConfiguration', architecture, 'emulatedMachines'),
  ].find(Array.isArray);
  return chosen?.map(String) ?? usualMachines[architecture] ?? [];
}

const kubevirtCollection = (resource: string) => `kubevirt.io/${resource}`;

/** What admission reads besides the object itself. */
export function storedObjects({ store }: Pick<ObjectContext, 'store'>): StoredObjects {
  const migrations = kubevirtCollection('virtualmachineinstancemigrations');
  return {
    vmi: (namespace, name) =>
      store.get({ collection: kubevirtCollection('virtualmachineinstances'), namespace, name })?.object,
    migrations: (namespace, vmiName) =>
      store
        .list(migrations)
        .map(({ object }) => object)
        .filter((each) => each.metadata.namespace === namespace && stringAt(each, 'spec', 'vmiName') === vmiName),
    restores: (namespace, vmName) =>
      store
        .list('snapshot.kubevirt.io/virtualmachinerestores')
        .map(({ object }) => object)
        .filter((each) => each.metadata.namespace === namespace && stringAt(each, 'spec', 'target', 'name') === vmName),
    backups: (namespace) =>
      store
        .list('backup.kubevirt.io/virtualmachinebackups')
        .map(({ object }) => object)
        .filter((each) => each.metadata.namespace === namespace),
    storageClass: (name) => store.get({ collection: 'storage.k8s.io/storageclasses', namespace: '', name })?.object,
  };
}
