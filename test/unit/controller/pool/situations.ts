import {
  type Condition,
  finalizers,
  labels,
  type OwnerReference,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachinePool,
} from '../../../../src/api/index.ts';
import { buildVm, buildVmi } from '../builders.ts';

export const owner: OwnerReference = {
  ...{ apiVersion: 'pool.kubevirt.io/v1beta1', kind: 'VirtualMachinePool', name: 'web', uid: 'uid-pool' },
  ...{ controller: true, blockOwnerDeletion: true },
};

export function template(memory = '64Mi', spec: object = {}): VirtualMachinePool['spec']['virtualMachineTemplate'] {
  const vmi = { metadata: { labels: { guest: 'web' } }, spec: { domain: { memory: { guest: memory } } } };
  return { metadata: { labels: { pool: 'web' } }, spec: { runStrategy: 'Always', template: vmi, ...spec } };
}

export function buildPool(spec: Partial<VirtualMachinePool['spec']> = {}, metadata: object = {}): VirtualMachinePool {
  const own = { name: 'web', namespace: 'default', uid: 'uid-pool', resourceVersion: '7', generation: 2 };
  return {
    ...{ apiVersion: 'pool.kubevirt.io/v1beta1', kind: 'VirtualMachinePool' },
    metadata: { ...own, finalizers: [finalizers.pool], ...metadata },
    spec: { replicas: 2, selector: { matchLabels: { pool: 'web' } }, virtualMachineTemplate: template(), ...spec },
  };
}

const ready: Condition = { type: 'Ready', status: 'True' };

/** A VM of the pool: `web-<index>`, made from revision `web-<revision>`. */
export function vmOf(index: number, revision = 2, metadata: object = {}, status: VirtualMachine['status'] = {}) {
  const vm = buildVm({}, status);
  const name = `web-${index}`;
  const own: VirtualMachine['metadata'] = {
    ...{ name, namespace: 'default', uid: `uid-${name}`, resourceVersion: '5', finalizers: [finalizers.pool] },
    ...{ labels: { pool: 'web', [labels.poolRevision]: `web-${revision}` }, ownerReferences: [owner] },
    creationTimestamp: `2026-01-01T00:00:0${index}Z`,
  };
  return { ...vm, metadata: { ...own, ...metadata } };
}

/** Its VMI, that runs and is ready. */
export function vmiOf(
  index: number,
  revision = 2,
  status: VirtualMachineInstance['status'] = { phase: 'Running', conditions: [ready] },
): VirtualMachineInstance {
  const vm = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', name: `web-${index}`, uid: `uid-web-${index}` };
  return buildVmi({}, status, {
    ...{ name: `web-${index}`, uid: `uid-vmi-${index}`, ownerReferences: [{ ...vm, controller: true }] },
    labels: { [labels.poolRevision]: `web-${revision}` },
  });
}
