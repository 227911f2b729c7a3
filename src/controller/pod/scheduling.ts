import { hasDedicatedCpus, labels, tscFrequencyOf, tscNeed, type VirtualMachineInstance } from '../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';

/** Prefixes of what the node labeller writes (upstream: staging/src/kubevirt.io/api/core/v1/types.go). */
const cpuModel = 'cpu-model.node.kubevirt.io/';
const cpuFeature = 'cpu-feature.node.kubevirt.io/';
const machineType = 'machine-type.node.kubevirt.io/';
const hypervFeature = 'hyperv.node.kubevirt.io/';
const intel = 'cpu-vendor.node.kubevirt.io/Intel';
const tscFrequency = 'scheduling.node.kubevirt.io/tsc-frequency-';
const obsoleteHostModel = 'node-labeller.kubevirt.io/obsolete-host-model';

/** Each node has them, by libvirt's own words. */
const modesOfHost = ['host-model', 'host-passthrough'];

/** Enlightenments that only some kernels have. */
const enlightenments = [
  ...['vpindex', 'runtime', 'reset', 'synic', 'synictimer', 'frequencies', 'reenlightenment', 'tlbflush', 'ipi'],
];

/** Labels that the node must have (upstream: pkg/virt-controller/services/nodeselectorrenderer.go). */
export function nodeSelector(vmi: VirtualMachineInstance, config: ControllerConfig): Record<string, string> {
  return {
    [labels.schedulable]: 'true',
    'kubernetes.io/arch': vmi.spec.architecture ?? config.architecture,
    ...config.nodeSelectors,
    ...vmi.spec.nodeSelector,
    ...Object.fromEntries(capabilities(vmi, config).map((key) => [key, 'true'])),
  };
}

function capabilities(vmi: VirtualMachineInstance, { launcherPods }: ControllerConfig): string[] {
  const { cpu, machine } = vmi.spec.domain;
  const type = vmi.status?.machine?.type || machine?.type;
  const frequency = tscNeed(vmi) && tscFrequencyOf(vmi);
  return [
    ...(hasDedicatedCpus(vmi) ? ['kubevirt.io/cpumanager'] : []),
    ...(launcherPods.strictHyperv ? ofHyperv(vmi) : []),
    ...ofCpu(vmi),
    ...(type ? [machineType + type] : []),
    ...(frequency !== undefined ? [tscFrequency + frequency] : []),
    ...(cpu?.realtime ? ['kubevirt.io/realtime'] : []),
    ...ofLaunchSecurity(vmi),
  ];
}

/** What a model lacks or has in excess is said beside it only: without one, features are the guest's wish and no more. */
function ofCpu({ spec }: VirtualMachineInstance): string[] {
  const { model, features = [] } = spec.domain.cpu ?? {};
  if (!model) return [];
  const required = features.filter(({ policy }) => !policy || policy === 'require');
  return [...(modesOfHost.includes(model) ? [] : [cpuModel + model]), ...required.map(({ name }) => cpuFeature + name)];
}

function ofHyperv({ spec }: VirtualMachineInstance): string[] {
  const hyperv = memberAt(spec.domain.features, 'hyperv');
  const isOn = (name: string) => memberAt(hyperv, name, 'enabled') === true;
  const evmcs = memberAt(hyperv, 'evmcs');
  const needsIntel = isRecord(evmcs) && evmcs.enabled !== false;
  return [...enlightenments.filter(isOn).map((name) => hypervFeature + name), ...(needsIntel ? [intel] : [])];
}

function ofLaunchSecurity({ spec }: VirtualMachineInstance): string[] {
  const { sev, snp, tdx } = spec.domain.launchSecurity ?? {};
  return [
    ...(sev || snp ? ['kubevirt.io/sev'] : []),
    ...(memberAt(sev, 'policy', 'encryptedState') === true ? ['kubevirt.io/sev-es'] : []),
    ...(snp ? ['kubevirt.io/sev-snp'] : []),
    ...(tdx ? ['kubevirt.io/tdx'] : []),
    ...(spec.domain.launchSecurity && spec.architecture === 's390x' ? ['kubevirt.io/s390-pv'] : []),
  ];
}

type Affinity = Readonly<Record<string, unknown>>;
const required = 'requiredDuringSchedulingIgnoredDuringExecution';
const hostname = 'kubernetes.io/hostname';

/** The VMI's own, and no node or pod beside which the guest cannot be (upstream: setNodeAffinityForPod in pkg/virt-controller/services/template.go). */
export function affinityOf(vmi: VirtualMachineInstance, reservations: readonly string[]): Affinity | undefined {
  const own = isRecord(vmi.spec.affinity) ? vmi.spec.affinity : undefined;
  const refused = refusedLabels(vmi);
  const nodeAffinity = refused.length > 0 && { nodeAffinity: without(refused, memberAt(own, 'nodeAffinity')) };
  const podAntiAffinity = reservations.length > 0 && {
    podAntiAffinity: apart(reservations, memberAt(own, 'podAntiAffinity')),
  };
  return own || nodeAffinity || podAntiAffinity ? { ...own, ...nodeAffinity, ...podAntiAffinity } : undefined;
}

function refusedLabels({ spec }: VirtualMachineInstance): string[] {
  const { model, features = [] } = spec.domain.cpu ?? {};
  const forbidden = features.filter(({ policy }) => policy === 'forbid').map(({ name }) => cpuFeature + name);
  return [...(!model || model === 'host-model' ? [obsoleteHostModel] : []), ...forbidden];
}

/** Any one of the terms is enough for the scheduler, so that each has to say it. */
function without(keys: readonly string[], given: unknown): Affinity {
  const more = keys.map((key) => ({ key, operator: 'DoesNotExist' }));
  const terms = listOf(memberAt(given, required, 'nodeSelectorTerms'));
  const isGiven = memberAt(given, required) !== undefined;
  const extended = (isGiven ? terms : [{}]).map((term) => {
    return {
      ...(isRecord(term) ? term : {}),
      matchExpressions: [...listOf(memberAt(term, 'matchExpressions')), ...more],
    };
  });
  return { ...(isRecord(given) ? given : {}), [required]: { nodeSelectorTerms: extended } };
}

/** Pods with a persistent reservation of the same disk: its owner is the node. */
function apart(keys: readonly string[], given: unknown): Affinity {
  const terms = keys.map((key) => ({
    labelSelector: { matchExpressions: [{ key, operator: 'Exists' }] },
    topologyKey: hostname,
  }));
  return { ...(isRecord(given) ? given : {}), [required]: [...listOf(memberAt(given, required)), ...terms] };
}
