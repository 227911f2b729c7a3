/**
 * How lists of a type are merged by a strategic merge patch (the `patchStrategy` and `patchMergeKey` of Kubernetes' types).
 * A list that is not named here is replaced as a whole.
 */
export interface StrategicSchema {
  /** Path of members (list elements add no step) → member that identifies an element, or `set` for lists of plain values. */
  readonly lists: Readonly<Record<string, { readonly key: string } | 'set'>>;
}

const metadata = {
  'metadata.finalizers': 'set',
  'metadata.ownerReferences': { key: 'uid' },
} as const;

const container = {
  env: { key: 'name' },
  ports: { key: 'containerPort' },
  volumeMounts: { key: 'mountPath' },
  volumeDevices: { key: 'devicePath' },
} as const;

function below(prefix: string, lists: StrategicSchema['lists']): StrategicSchema['lists'] {
  return Object.fromEntries(Object.entries(lists).map(([path, rule]) => [`${prefix}.${path}`, rule]));
}

export const plainStrategic: StrategicSchema = { lists: metadata };

export const podStrategic: StrategicSchema = {
  lists: {
    ...metadata,
    ...below('spec.containers', container),
    ...below('spec.initContainers', container),
    ...below('spec.ephemeralContainers', container),
    'spec.containers': { key: 'name' },
    'spec.initContainers': { key: 'name' },
    'spec.ephemeralContainers': { key: 'name' },
    'spec.volumes': { key: 'name' },
    'spec.imagePullSecrets': { key: 'name' },
    'spec.hostAliases': { key: 'ip' },
    'spec.topologySpreadConstraints': { key: 'topologyKey' },
    'spec.schedulingGates': { key: 'name' },
    'spec.resourceClaims': { key: 'name' },
    'status.conditions': { key: 'type' },
    'status.podIPs': { key: 'ip' },
    'status.hostIPs': { key: 'ip' },
  },
};

export const nodeStrategic: StrategicSchema = {
  lists: {
    ...metadata,
    'spec.podCIDRs': 'set',
    'status.conditions': { key: 'type' },
    'status.addresses': { key: 'type' },
  },
};

export const namespaceStrategic: StrategicSchema = {
  lists: { ...metadata, 'status.conditions': { key: 'type' } },
};

export const serviceStrategic: StrategicSchema = {
  lists: { ...metadata, 'spec.ports': { key: 'port' }, 'status.conditions': { key: 'type' } },
};

export const serviceAccountStrategic: StrategicSchema = {
  lists: { ...metadata, secrets: { key: 'name' }, imagePullSecrets: { key: 'name' } },
};

export const claimStrategic: StrategicSchema = {
  lists: { ...metadata, 'status.conditions': { key: 'type' } },
};
