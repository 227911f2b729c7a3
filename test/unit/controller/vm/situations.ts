import {
  finalizers,
  type KubeObject,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiPhase,
} from '../../../../src/api/index.ts';
import { ownerReference } from '../../../../src/controller/vm/make-vmi.ts';
import type { ClusterState } from '../../../fixtures/controller/one-reconcile.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildVm, buildVmi } from '../builders.ts';

/** The parts of which the matrix of virt-controller's VM part is made. */
export interface VmKind {
  readonly name: string;
  readonly spec: Partial<VirtualMachine['spec']>;
  readonly status?: VirtualMachine['status'];
}

export const strategies: readonly VmKind[] = [
  { name: 'Always', spec: { runStrategy: 'Always' } },
  { name: 'RerunOnFailure, never run', spec: { runStrategy: 'RerunOnFailure' } },
  { name: 'RerunOnFailure', spec: { runStrategy: 'RerunOnFailure' }, status: { runStrategy: 'RerunOnFailure' } },
  { name: 'Manual', spec: { runStrategy: 'Manual' } },
  { name: 'Halted', spec: { runStrategy: 'Halted' } },
  { name: 'Once', spec: { runStrategy: 'Once' } },
  { name: 'WaitAsReceiver', spec: { runStrategy: 'WaitAsReceiver' } },
];

/** What else a VM may say, or be in, that changes what is done. */
export interface VmState {
  readonly name: string;
  readonly change: (vm: VirtualMachine) => void;
}

const now = new FakeClock().now();
const inFuture = new Date(now.getTime() + 60_000).toISOString();
const failedBefore = { consecutiveFailCount: 2, lastFailedVMIUID: 'uid-failed-before', retryAfterTimestamp: inFuture };

export const vmStates: readonly VmState[] = [
  { name: 'ordinary', change: () => {} },
  {
    name: 'new',
    change: ({ metadata }) => {
      delete metadata.finalizers;
    },
  },
  {
    name: 'in back-off',
    change: (vm) => {
      vm.status = { ...vm.status, startFailure: failedBefore };
    },
  },
  {
    name: 'deleted',
    change: ({ metadata }) => {
      metadata.deletionTimestamp = now.toISOString();
    },
  },
  {
    name: 'deleted, its VMI shall stay',
    change: ({ metadata }) => {
      metadata.deletionTimestamp = now.toISOString();
      metadata.finalizers = [finalizers.vm, 'orphan'];
    },
  },
];

export type Request = NonNullable<NonNullable<VirtualMachine['status']>['stateChangeRequests']>[number];

export const requests: readonly (readonly [name: string, requests: readonly Request[]])[] = [
  ['', []],
  ['start', [{ action: 'Start' }]],
  ['start paused', [{ action: 'Start', data: { paused: 'true' } }]],
  ['stop', [{ action: 'Stop', uid: 'uid-vmi' }]],
  ['stop of another', [{ action: 'Stop', uid: 'uid-other' }]],
  ['restart', [{ action: 'Stop', uid: 'uid-vmi' }, { action: 'Start' }]],
];

const neverStarted = { created: false, ready: false, desiredGeneration: 1 };

interface VmiSituation {
  readonly name: string;
  readonly vmi?: VirtualMachineInstance;
  /** Only the API has it. */
  readonly isUnseen?: boolean;
}

const mine = { finalizers: [finalizers.vmi, finalizers.vm], ownerReferences: [ownerReference('vm1', 'uid-vm')] };
const vmiIn = (phase: VmiPhase, metadata: Partial<VirtualMachineInstance['metadata']> = {}) =>
  buildVmi({}, { phase }, { ...mine, ...metadata });

function hasRun(phase: VmiPhase): VirtualMachineInstance {
  const stamp = { phase: 'Running' as const, phaseTransitionTimestamp: '2026-01-01T00:00:00Z' };
  return buildVmi({}, { phase, phaseTransitionTimestamps: [stamp] }, mine);
}

const ready = { type: 'Ready', status: 'True' } as const;
const deletionTimestamp = now.toISOString();

export const vmiSituations: readonly VmiSituation[] = [
  { name: 'none' },
  { name: 'unseen', vmi: vmiIn('Running'), isUnseen: true },
  { name: 'of another VM', vmi: vmiIn('Running', { ownerReferences: [ownerReference('vm1', 'uid-other')] }) },
  { name: 'without owner', vmi: vmiIn('Running', { ownerReferences: [] }) },
  { name: 'pending', vmi: vmiIn('Pending') },
  { name: 'scheduled', vmi: vmiIn('Scheduled') },
  { name: 'running', vmi: buildVmi({}, { phase: 'Running', conditions: [ready] }, mine) },
  { name: 'running, deleted', vmi: vmiIn('Running', { deletionTimestamp }) },
  { name: 'succeeded', vmi: hasRun('Succeeded') },
  { name: 'failed', vmi: hasRun('Failed') },
  { name: 'failed, never ran', vmi: vmiIn('Failed') },
  { name: 'failed, deleted', vmi: vmiIn('Failed', { deletionTimestamp }) },
];

export function stateOf(
  kind: VmKind,
  state: VmState,
  { vmi, isUnseen }: VmiSituation,
  request: readonly Request[],
): { readonly cluster: ClusterState; readonly objects: readonly KubeObject[] } {
  const stateChangeRequests = request.length > 0 ? { stateChangeRequests: [...request] } : {};
  const vm = buildVm(kind.spec, { ...neverStarted, ...kind.status, ...stateChangeRequests });
  vm.metadata.finalizers = [finalizers.vm];
  state.change(vm);
  const vmis = vmi ? [vmi] : [];
  const cluster = { vms: [vm], ...(isUnseen ? { unseen: vmis } : { vmis }) };
  return { cluster, objects: [vm, ...vmis] };
}
