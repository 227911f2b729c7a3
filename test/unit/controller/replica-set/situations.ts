import {
  type Condition,
  type OwnerReference,
  observedApiVersion,
  type VirtualMachineInstance,
  type VirtualMachineInstanceReplicaSet,
} from '../../../../src/api/index.ts';
import { buildVmi } from '../builders.ts';

type ReplicaSet = VirtualMachineInstanceReplicaSet;

export const owner: OwnerReference = {
  ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstanceReplicaSet', name: 'web', uid: 'uid-set' },
  ...{ controller: true, blockOwnerDeletion: true },
};

export function buildSet(spec: Partial<ReplicaSet['spec']> = {}, metadata: object = {}): ReplicaSet {
  const template = { metadata: { labels: { app: 'web' } }, spec: { domain: { memory: { guest: '64Mi' } } } };
  return {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstanceReplicaSet' },
    metadata: {
      ...{ name: 'web', namespace: 'default', uid: 'uid-set', resourceVersion: '7' },
      ...{ annotations: observedApiVersion, ...metadata },
    },
    spec: { replicas: 2, selector: { matchLabels: { app: 'web' } }, template, ...spec },
  };
}

const created = '2026-01-01T00:00:00Z';

/** A VMI of the set. */
export function member(
  name: string,
  status: VirtualMachineInstance['status'] = {},
  metadata: Partial<VirtualMachineInstance['metadata']> = {},
): VirtualMachineInstance {
  const own = {
    name,
    uid: `uid-${name}`,
    labels: { app: 'web' },
    ownerReferences: [owner],
    creationTimestamp: created,
  };
  return buildVmi({}, status, { ...own, ...metadata });
}

export const ready: Condition = { type: 'Ready', status: 'True' };
export const running: NonNullable<VirtualMachineInstance['status']> = {
  ...{ phase: 'Running', nodeName: 'node1', conditions: [ready] },
};
