import {
  type ControllerKind,
  type ControllerReport,
  controllerExplainApiVersion,
  type DataVolume,
  type EventObject,
  type KubeObject,
  labels,
  type PersistentVolumeClaim,
  type Pod,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
  type WaitingDecision,
  type WaitingReport,
} from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import { nextTryText } from '../../web/index.ts';
import { getExplanation } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';
import type { NodePaths } from '../paths.ts';
import { tellWaiting, type WaitingFacts } from './tell.ts';

const warningsShown = 3;

/** Undefined: the API knows no such VM either. Rejects with KubeError when the API does not answer. */
export async function readWaiting(
  client: KubeClient,
  paths: NodePaths,
  vm: { readonly namespace: string; readonly name: string },
  now: Date,
): Promise<WaitingReport | undefined> {
  const facts = await readFacts(client, paths, vm);
  return facts.vm || facts.vmi ? reportOf(facts, now) : undefined;
}

async function readFacts(
  client: KubeClient,
  paths: NodePaths,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<WaitingFacts> {
  const ref = { namespace, name };
  const [vm, vmi, claims, dataVolumes, quotas, events, nodes, ofVm, ofVmi] = await Promise.all([
    getIfThere<VirtualMachine>(client, resources.virtualMachines, ref),
    getIfThere<VirtualMachineInstance>(client, resources.virtualMachineInstances, ref),
    listIfServed<PersistentVolumeClaim>(client, resources.persistentVolumeClaims, namespace),
    listIfServed<DataVolume>(client, resources.dataVolumes, namespace),
    listIfServed<KubeObject>(client, resources.resourceQuotas, namespace),
    listIfServed<EventObject>(client, resources.events, namespace),
    client.list<KubeObject>(resources.nodes),
    decisionsOf(paths, 'vm', ref),
    decisionsOf(paths, 'vmi', ref),
  ]);
  const pods = vmi ? await listIfServed<Pod>(client, resources.pods, namespace) : [];
  const pod = newest(pods.filter(({ metadata }) => metadata.labels?.[labels.createdBy] === vmi?.metadata.uid));
  const named = namedVolumes(vm, vmi);
  const isOurs = new Set([name, pod?.metadata.name]);
  return {
    namespace,
    name,
    vm,
    vmi,
    pod,
    claims: named.claims.map((each) => ({ name: each, claim: claims.find(({ metadata }) => metadata.name === each) })),
    dataVolumes: dataVolumes.filter(({ metadata }) => named.dataVolumes.includes(metadata.name)),
    quotas: quotas.map(({ metadata }) => metadata.name),
    events: events
      .filter(({ involvedObject }) => isOurs.has(involvedObject.name))
      .sort((one, other) => timeOf(one).localeCompare(timeOf(other))),
    ofVm: ofVm.report,
    ofVmi: ofVmi.report,
    isControllerAway: ofVm.isAway && ofVmi.isAway,
    nodes: {
      ready: nodes.items.filter(({ metadata }) => metadata.labels?.[labels.schedulable] === 'true').length,
      all: nodes.items.length,
    },
  };
}

/** A kind that this server does not have has no objects. */
async function listIfServed<T extends KubeObject>(
  client: KubeClient,
  type: (typeof resources)[keyof typeof resources],
  namespace: string,
): Promise<readonly T[]> {
  try {
    return (await client.list<T>(type, { namespace })).items;
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND')) return [];
    throw error;
  }
}

async function decisionsOf(
  { controllerSocket }: NodePaths,
  kind: ControllerKind,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<{ readonly report: ControllerReport | undefined; readonly isAway: boolean }> {
  const path = `/explain/${kind}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  try {
    const options = { apiVersion: controllerExplainApiVersion, server: 'virt-controller' } as const;
    const { document } = await getExplanation(controllerSocket, path, options);
    const isReport = document.kind === 'Explanation' && Array.isArray(document.decisions);
    return { report: isReport ? (document as unknown as ControllerReport) : undefined, isAway: false };
  } catch (error) {
    if (error instanceof NodeError) return { report: undefined, isAway: true };
    throw error;
  }
}

/** Names of claims and DataVolumes that volumes and templates name. Total: the API takes specs of any shape in places. */
function namedVolumes(vm: VirtualMachine | undefined, vmi: VirtualMachineInstance | undefined) {
  const spec: unknown = vmi?.spec ?? vm?.spec?.template?.spec;
  const volumes = listOf(isRecord(spec) ? spec.volumes : undefined);
  const claims = volumes.flatMap((volume) => textOf(volume.persistentVolumeClaim, 'claimName'));
  const named = volumes.flatMap((volume) => textOf(volume.dataVolume, 'name'));
  const templates = listOf(vm?.spec?.dataVolumeTemplates).flatMap(({ metadata }) => textOf(metadata, 'name'));
  return { claims, dataVolumes: [...new Set([...named, ...templates, ...claims])] };
}

function listOf(value: unknown): readonly Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

function textOf(value: unknown, field: string): string[] {
  const found = isRecord(value) ? value[field] : undefined;
  return typeof found === 'string' && found !== '' ? [found] : [];
}

function newest(pods: readonly Pod[]): Pod | undefined {
  const timeOfPod = ({ metadata }: Pod) => metadata.creationTimestamp ?? '';
  return [...pods].sort((one, other) => timeOfPod(one).localeCompare(timeOfPod(other))).at(-1);
}

function timeOf({ lastTimestamp, firstTimestamp, metadata }: EventObject): string {
  return lastTimestamp ?? firstTimestamp ?? metadata.creationTimestamp ?? '';
}

function reportOf(facts: WaitingFacts, now: Date): WaitingReport {
  const { namespace, name, vm, vmi, pod, events } = facts;
  const decided = [decidedOf('VirtualMachine', facts.ofVm), decidedOf('VirtualMachineInstance', facts.ofVmi)].flat();
  return {
    kind: 'Waiting',
    at: now.toISOString(),
    namespace,
    name,
    ...(vm && { vmStatus: vm.status?.printableStatus ?? 'not looked at yet' }),
    ...(vmi && { vmiPhase: vmi.status?.phase || 'new' }),
    ...(pod && { pod: { name: pod.metadata.name, phase: pod.status?.phase ?? 'Pending' } }),
    ...tellWaiting(facts),
    ...(decided.length > 0 && { decided }),
    warnings: events
      .filter(({ type }) => type === 'Warning')
      .slice(-warningsShown)
      .map((event) => ({ at: timeOf(event), reason: event.reason, message: event.message })),
  };
}

function decidedOf(about: string, report: ControllerReport | undefined): WaitingDecision[] {
  const last = report?.decisions.at(-1);
  if (!report || !last) return [];
  const { problem } = report;
  const next = nextTryText(report.nextTry);
  return [{ about, rule: last.rule, why: last.why, next, ...(problem !== undefined && { problem }) }];
}
