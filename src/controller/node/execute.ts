import {
  annotations,
  type KubeObject,
  keyOf,
  labels,
  type Pod,
  resources,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import type { Executors, ObjectEvent, Outcome, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import type { NodeStepArgs } from './decide.ts';
import { mayRun, type NodeObservation } from './observe.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'get' | 'list' | 'patch'>;
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'saw'>;
  readonly observation: NodeObservation;
  readonly noteOnVmi: (vmi: VirtualMachineInstance, event: ObjectEvent) => void;
}

const done: Outcome = { kind: 'done' };

const unresponsive: ObjectEvent = {
  type: 'Normal',
  reason: 'NodeUnresponsive',
  message:
    'virt-handler of this node has not been heard of for 5 minutes: the node takes no new VirtualMachineInstances',
};

export const executors: Executors<NodeStepArgs, ExecuteContext> = { markUnschedulable, failVmis };

/** Of the node as it was observed: an agent that is back has changed it. */
async function markUnschedulable(_: object, { client, observation, signal }: ExecuteContext): Promise<Outcome> {
  const { key, node } = observation;
  const { resourceVersion } = node?.metadata ?? {};
  const body = { metadata: { resourceVersion, labels: { [labels.schedulable]: 'false' } } };
  try {
    await client.patch(resources.nodes, { name: key }, body, 'merge', { signal });
    return { kind: 'done', events: [unresponsive] };
  } catch (error) {
    if (!isKubeError(error, 'NOT_FOUND', 'CONFLICT')) throw error;
  }
  return done;
}

/** The cache may be behind, and a VM must never run twice: the API server is asked for the node and for the pods. */
async function failVmis({ vmis: lost }: Step<NodeStepArgs, 'failVmis'>, context: ExecuteContext): Promise<Outcome> {
  const { client, observation, signal } = context;
  const { key, node } = observation;
  const newest = await getIfThere<KubeObject>(client, resources.nodes, { name: key }, { signal });
  if (newest?.metadata.uid !== node?.metadata.uid || heartbeatOf(newest) !== heartbeatOf(node)) return done;
  const problems: string[] = [];
  for (const namespace of new Set(lost.map(({ metadata }) => metadata.namespace))) {
    const where = namespace === undefined ? {} : { namespace };
    const { items: pods } = await client.list<Pod>(resources.pods, { ...where, signal });
    const here = lost.filter(({ metadata }) => metadata.namespace === namespace);
    for (const vmi of here.filter((one) => !pods.some((pod) => mayRun(pod, one)))) {
      try {
        await fail(vmi, context);
      } catch (error) {
        // One that is refused costs itself only.
        if (signal.aborted || !isKubeError(error)) throw error;
        problems.push(`${keyOf(vmi)}: ${errorMessage(error)}`);
      }
    }
  }
  if (problems.length === 0) return done;
  return {
    kind: 'failed',
    error: { severity: 'retry', code: 'NOT_WRITTEN', message: problems.slice(0, 5).join('; ') },
  };
}

const heartbeatOf = (node: KubeObject | undefined) => node?.metadata.annotations?.[annotations.heartbeat];

async function fail(
  vmi: VirtualMachineInstance,
  { client, vmis, observation, noteOnVmi, signal }: ExecuteContext,
): Promise<void> {
  const { status, metadata } = vmi;
  const operations = [
    { op: 'test', path: '/metadata/uid', value: metadata.uid },
    { op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion },
    { op: 'replace', path: '/status/phase', value: 'Failed' },
    { op: 'add', path: '/status/reason', value: 'NodeUnresponsive' },
  ];
  const type = resources.virtualMachineInstances;
  try {
    const failed = await client.patch<VirtualMachineInstance>(type, metadata, operations, 'json', { signal });
    vmis.saw(keyOf(vmi), vmi, failed);
  } catch (error) {
    // Somebody has changed it: it is looked at again.
    if (isKubeError(error, 'NOT_FOUND', 'CONFLICT', 'INVALID')) return;
    throw error;
  }
  const message = `virt-handler on node ${observation.key} is not responsive and the pod of the guest (phase ${status?.phase}) is gone: marking the VMI as failed`;
  noteOnVmi(vmi, { type: 'Warning', reason: 'NodeUnresponsive', message });
}
