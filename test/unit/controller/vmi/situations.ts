import {
  type Condition,
  finalizers,
  type Pod,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiPhase,
} from '../../../../src/api/index.ts';
import type { ClusterState } from '../../../fixtures/controller/one-reconcile.ts';
import { buildPod, buildRunningPod, buildVm, buildVmi } from '../builders.ts';

/** The parts of which the matrix of virt-controller's VMI part is made. */
export const phases: readonly VmiPhase[] = [
  '',
  'Pending',
  'Scheduling',
  'Scheduled',
  'Running',
  'Succeeded',
  'Failed',
  'WaitingForSync',
  'Unknown',
];

/** What is special about the VMI. */
export interface VmiKind {
  readonly name: string;
  readonly about: string;
  readonly change?: (vmi: VirtualMachineInstance) => void;
  readonly vm?: VirtualMachine;
}

const owner = {
  apiVersion: 'kubevirt.io/v1',
  kind: 'VirtualMachine',
  name: 'vm1',
  uid: 'uid-vm',
  controller: true,
  blockOwnerDeletion: true,
};

function ofVm(vmi: VirtualMachineInstance): void {
  vmi.metadata.ownerReferences = [owner];
  vmi.metadata.finalizers = [finalizers.vmi, finalizers.vm];
}

export const kinds: readonly VmiKind[] = [
  { name: 'own', about: 'the VMI was admitted and belongs to no VM' },
  {
    name: 'not admitted',
    about: 'the VMI has no finalizer of virt-controller',
    change: ({ metadata }) => {
      metadata.finalizers = ['foregroundDeleteVirtualMachine'];
    },
  },
  {
    name: 'malformed',
    about: 'the VMI says nothing of its memory',
    change: ({ spec }) => {
      spec.domain = {};
    },
  },
  {
    name: 'paused',
    about: 'the guest is paused',
    change: ({ status }) => status?.conditions?.push({ type: 'Paused', status: 'True', reason: 'PausedByUser' }),
  },
  {
    name: 'receives a guest',
    about: 'the VMI was made to receive a guest of another VMI object',
    change: ({ metadata }) => {
      metadata.annotations = { 'kubevirt.io/create-migration-target': 'true' };
    },
  },
  {
    name: 'receives no guest any more',
    about: 'the migration that was to bring the guest has failed',
    change: (vmi) => {
      vmi.metadata.annotations = { 'kubevirt.io/create-migration-target': 'true' };
      vmi.status = { ...vmi.status, migrationState: { migrationUid: 'job', failed: true, completed: true } };
    },
  },
  {
    name: 'guest has left',
    about: 'the guest has gone to another VMI object',
    change: (vmi) => {
      const targetState = { syncAddress: '10.0.0.9:9185', nodeAddress: '10.0.0.2' };
      vmi.status = { ...vmi.status, migrationState: { migrationUid: 'job', completed: true, targetState } };
    },
  },
  { name: 'of a VM', about: 'the VMI belongs to a VM that is there', change: ofVm, vm: buildVm() },
  { name: 'of a VM that is gone', about: 'its VM is in no cache', change: ofVm },
];

export interface PodSituation {
  readonly name: string;
  readonly pods: readonly Pod[];
  /** In the API, and not in the cache. */
  readonly unseen?: readonly Pod[];
  /** Pods that `status.activePods` does not have. */
  readonly isForeign?: boolean;
}

const ended = '2026-01-01T00:10:00Z';

function computeEnded(exitCode: number): Pod {
  const state = { terminated: { exitCode, reason: 'Error' } };
  return buildRunningPod({
    containerStatuses: [{ name: 'compute', state, ready: false, restartCount: 0, image: 'virt-launcher', imageID: '' }],
  });
}

function waiting(reason: string): Pod {
  const container = { name: 'compute', ready: false, restartCount: 0, image: 'virt-launcher', imageID: '' };
  return buildPod({ phase: 'Pending', containerStatuses: [{ ...container, state: { waiting: { reason } } }] });
}

const conditionsOf = (...conditions: Condition[]) => ({ phase: 'Pending' as const, conditions });

/** A running pod that carries what virt-controller writes on it. */
function marked(condition: Condition): Pod {
  const pod = buildRunningPod({ conditions: [{ type: 'Ready', status: 'True' }, condition] });
  return { ...pod, metadata: { ...pod.metadata, labels: { 'kubevirt.io/nodeName': 'node1' } } };
}

const unpaused = 'kubevirt.io/virtual-machine-unpaused';
const another = { name: 'virt-launcher-vm1-fghij', uid: 'uid-other', creationTimestamp: '2026-01-01T00:05:00Z' };
const elsewhere: Pod = { ...buildRunningPod(), metadata: { ...buildPod().metadata, ...another } };
elsewhere.spec = { ...elsewhere.spec, nodeName: 'node2' };
const predecessors = buildPod({ phase: 'Running' }, { name: 'virt-launcher-vm1-klmno', uid: 'uid-old' });
predecessors.metadata.ownerReferences = [{ ...owner, kind: 'VirtualMachineInstance', uid: 'uid-vmi-before' }];

export const podSituations: readonly PodSituation[] = [
  { name: 'none', pods: [] },
  { name: 'unseen', pods: [], unseen: [buildRunningPod()] },
  { name: 'pending', pods: [buildPod()] },
  {
    name: 'unschedulable',
    pods: [buildPod(conditionsOf({ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'full' }))],
  },
  { name: 'no image', pods: [waiting('ErrImagePull')] },
  { name: 'running', pods: [buildRunningPod()] },
  { name: 'running, marked unpaused', pods: [marked({ type: unpaused, status: 'True', reason: 'NotPaused' })] },
  { name: 'running, marked paused', pods: [marked({ type: unpaused, status: 'False', reason: 'Paused' })] },
  { name: 'running elsewhere', pods: [elsewhere] },
  { name: 'running here and elsewhere', pods: [buildRunningPod(), elsewhere] },
  { name: 'temporary', pods: [temporary()] },
  { name: 'terminating', pods: [buildPod({ phase: 'Running' }, { deletionTimestamp: ended })] },
  { name: 'launcher ended well', pods: [computeEnded(0)] },
  { name: 'launcher ended badly', pods: [computeEnded(1)] },
  { name: 'succeeded', pods: [buildPod({ phase: 'Succeeded' })] },
  { name: 'failed', pods: [buildPod({ phase: 'Failed' })] },
  { name: 'foreign', pods: [buildRunningPod()], isForeign: true },
  {
    name: 'foreign terminating',
    pods: [buildPod({ phase: 'Running' }, { deletionTimestamp: ended })],
    isForeign: true,
  },
  { name: 'of an earlier VMI', pods: [predecessors], isForeign: true },
];

function temporary(): Pod {
  const pod = buildRunningPod();
  pod.metadata.annotations = { 'kubevirt.io/ephemeral-provisioning': 'true' };
  return pod;
}

/** The state of the cluster, as another process of virt-controller has left it. */
export function stateOf(kind: VmiKind, phase: VmiPhase, isDeleted: boolean, situation: PodSituation): ClusterState {
  const { pods, unseen = [], isForeign } = situation;
  const wasHandedOver = !['', 'Pending', 'Scheduling'].includes(phase);
  const vmi = buildVmi(
    {},
    {
      ...(phase && { phase }),
      ...(wasHandedOver && { nodeName: 'node1' }),
      ...(isForeign ? {} : { activePods: Object.fromEntries([...pods, ...unseen].map(activePod)) }),
      conditions: [],
    },
    {
      finalizers: [finalizers.vmi],
      ...(wasHandedOver && { labels: { 'kubevirt.io/nodeName': 'node1' } }),
      ...(isDeleted && { deletionTimestamp: ended }),
    },
  );
  kind.change?.(vmi);
  return { vmis: [vmi], pods, unseen, vms: kind.vm ? [kind.vm] : [] };
}

const activePod = ({ metadata, spec }: Pod): [uid: string, node: string] => [metadata.uid ?? '', spec.nodeName ?? ''];
