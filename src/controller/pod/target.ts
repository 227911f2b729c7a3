import {
  annotations,
  type Container,
  labels,
  type MigrationSourceState,
  type Pod,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { isDigestContainer } from './disk-containers.ts';
import { PodRenderError } from './errors.ts';
import { hotplugVolumes } from './hotplug-volumes.ts';
import { renderLauncherPod } from './render.ts';
import type { ClaimsByName } from './volumes.ts';

type Labels = Readonly<Record<string, string>>;

export interface TargetOf {
  /** `LauncherPods.targetName`. */
  readonly podName: string;
  readonly migration: { readonly name: string; readonly uid: string; readonly addedNodeSelector: Labels };
  /** The pod that the guest is in. */
  readonly sourcePod: Pod;
  /** Labels of the node that the guest is on. */
  readonly nodeLabels: Labels;
  readonly claims: ClaimsByName;
  /** What keeps its TPM and EFI variables on the target. */
  readonly stateClaim?: string | undefined;
}

const hostModel = 'host-model-cpu.node.kubevirt.io/';
const hostModelFeature = 'host-model-required-features.node.kubevirt.io/';
const migrationModel = 'cpu-model-migration.node.kubevirt.io/';
const feature = 'cpu-feature.node.kubevirt.io/';
const vendor = 'cpu-vendor.node.kubevirt.io/';

/**
 * The pod that a guest moves to (upstream: createTargetPod in pkg/virt-controller/watch/migration/migration.go): a launcher pod as the VMI has
 * one, on another node, with the very images of the source and a CPU that the guest can go on with. Pure. Throws PodRenderError.
 */
export function renderTargetPod(vmi: VirtualMachineInstance, config: ControllerConfig, target: TargetOf): Pod {
  const { podName, migration, sourcePod, claims, stateClaim } = target;
  const pod = renderLauncherPod(withoutPlugged(vmi, sourcePod), config, '', claims, stateClaim);
  const { [labels.nodeName]: _source, [labels.migrationTargetNodeName]: _target, ...own } = pod.metadata.labels ?? {};
  const level = selinuxLevel(vmi.status?.selinuxContext, config);
  const ownOptions = pod.spec.securityContext?.seLinuxOptions;
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      name: podName,
      labels: { ...own, [labels.migrationJobUid]: migration.uid },
      annotations: { ...pod.metadata.annotations, [annotations.migrationJobName]: migration.name },
    },
    spec: {
      ...withImagesOf(sourcePod, pod.spec),
      affinity: awayFrom(vmi, pod.spec.affinity),
      nodeSelector: targetSelector(vmi, pod.spec.nodeSelector ?? {}, target, config),
      securityContext: {
        ...pod.spec.securityContext,
        ...(level && { seLinuxOptions: { ...(isRecord(ownOptions) && ownOptions), level } }),
      },
    },
  };
}

/**
 * The pod that receives a guest of another VMI object, maybe of another cluster: as `renderTargetPod`, with what the other side says of its node in
 * place of a pod and a node here. Its images are those that the VMI here names. Pure. Throws PodRenderError.
 */
export function renderReceivingPod(
  vmi: VirtualMachineInstance,
  config: ControllerConfig,
  target: Omit<TargetOf, 'sourcePod' | 'nodeLabels'>,
  { node = '', nodeSelectors = {}, selinuxContext }: MigrationSourceState,
): Pod {
  const ordinary = renderLauncherPod(vmi, config, '', target.claims, target.stateClaim);
  const seen = { ...vmi, status: { ...vmi.status, ...(selinuxContext !== undefined && { selinuxContext }) } };
  const pod = renderTargetPod(seen, config, { ...target, sourcePod: ordinary, nodeLabels: nodeSelectors });
  return { ...pod, spec: { ...pod.spec, affinity: notOn(node, ordinary.spec.affinity) } };
}

/** Volumes that were plugged in come by an attachment pod here, too, whatever the spec says of them. */
function withoutPlugged(vmi: VirtualMachineInstance, sourcePod: Pod): VirtualMachineInstance {
  const plugged = hotplugVolumes(vmi, sourcePod);
  if (plugged.length === 0) return vmi;
  const volumes = vmi.spec.volumes?.filter((volume) => !plugged.includes(volume));
  return { ...vmi, spec: { ...vmi.spec, ...(volumes && { volumes }) } };
}

function targetSelector(
  vmi: VirtualMachineInstance,
  own: Labels,
  { migration, sourcePod, nodeLabels }: TargetOf,
  { useEmulation }: ControllerConfig,
) {
  // An emulated CPU is the same on every node, and its host model has no label.
  const isHostModel = vmi.spec.domain.cpu?.model === 'host-model' && !useEmulation;
  const selector = {
    ...migration.addedNodeSelector,
    ...own,
    ...(isHostModel && hostModelSelector(sourcePod.spec.nodeSelector ?? {}, nodeLabels)),
  };
  const isVendor = (key: string) => key.startsWith(vendor);
  if (Object.keys(selector).some(isVendor)) return selector;
  const found = Object.keys(nodeLabels).find(isVendor);
  return found === undefined ? selector : { ...selector, [found]: 'true' };
}

/** What the guest's CPU was made of. A source that is a target itself has it from where it came. */
function hostModelSelector(sourceSelector: Labels, nodeLabels: Labels): Record<string, string> {
  const inherited = Object.keys(sourceSelector).filter(
    (key) => key.startsWith(migrationModel) || key.startsWith(feature),
  );
  if (inherited.some((key) => key.startsWith(migrationModel))) {
    return Object.fromEntries(inherited.map((key) => [key, 'true']));
  }
  const keys = Object.keys(nodeLabels);
  const renamed = (from: string, to: string) =>
    keys.filter((key) => key.startsWith(from)).map((key) => [`${to}${key.slice(from.length)}`, 'true'] as const);
  const models = renamed(hostModel, migrationModel);
  if (models.length === 0) {
    const text = 'the node of the VMI does not say which CPU its host model is (label host-model-cpu.node.kubevirt.io)';
    throw new PodRenderError('NO_HOST_MODEL', text);
  }
  return Object.fromEntries([...models, ...renamed(hostModelFeature, feature)]);
}

const antiAffinity = 'podAntiAffinity';
const required = 'requiredDuringSchedulingIgnoredDuringExecution';

/** Beside what the VMI asks for: no node where another launcher of it is. */
function awayFrom({ metadata: { uid = '' } }: VirtualMachineInstance, affinity: unknown) {
  const term = {
    labelSelector: { matchLabels: { [labels.createdBy]: uid } },
    topologyKey: 'kubernetes.io/hostname',
  };
  const given = memberAt(affinity, antiAffinity);
  return {
    ...(isRecord(affinity) ? affinity : {}),
    [antiAffinity]: {
      ...(isRecord(given) ? given : {}),
      [required]: [...listOf(memberAt(given, required)), term],
    },
  };
}

/** Each term that the VMI asks for is one way to get a node: none of them leads to the source's. */
function notOn(node: string, affinity: unknown) {
  const given = memberAt(affinity, 'nodeAffinity');
  const selector = memberAt(given, required);
  const terms = listOf(memberAt(selector, 'nodeSelectorTerms'));
  const away = { key: 'kubernetes.io/hostname', operator: 'NotIn', values: [node] };
  const withAway = (term: unknown) => ({
    ...(isRecord(term) ? term : {}),
    matchExpressions: [...listOf(memberAt(term, 'matchExpressions')), away],
  });
  const nodeSelectorTerms = (terms.length > 0 ? terms : [{}]).map(withAway);
  return {
    ...(isRecord(affinity) ? affinity : {}),
    nodeAffinity: {
      ...(isRecord(given) ? given : {}),
      [required]: { ...(isRecord(selector) ? selector : {}), nodeSelectorTerms },
    },
  };
}

/** QEMU on both sides opens the same files. */
function selinuxLevel(context: string | undefined, { migrations }: ControllerConfig): string | undefined {
  if (!migrations.matchSelinuxLevel || context === 'none') return undefined;
  if (typeof context !== 'string' || context === '') {
    throw new PodRenderError('NO_SELINUX_CONTEXT', 'SELinux context not set on VMI status');
  }
  const level = context.split(':').slice(3).join(':');
  if (level === '') throw new PodRenderError('NO_SELINUX_CONTEXT', `VMI has invalid SELinux context: ${context}`);
  return level;
}

/** A tag may have moved since: images of disks are those that the guest runs from, by their digests. */
function withImagesOf(source: Pod, spec: Pod['spec']): Pod['spec'] {
  const pinned = digestsOf(source);
  const pin = <T extends { name: string; image?: string }>(container: T): T => {
    const image = container.name === 'compute' ? undefined : pinned.get(container.image ?? '');
    return image === undefined ? container : { ...container, image };
  };
  const isNeeded = (container: Container) => !(isDigestContainer(container) && container.image?.includes('@sha256:'));
  return {
    ...spec,
    containers: spec.containers.map(pin),
    ...(spec.initContainers && { initContainers: spec.initContainers.map(pin).filter(isNeeded) }),
    ...(spec.volumes && {
      volumes: spec.volumes.map((volume) => {
        const reference = pinned.get(volume.image?.reference ?? '');
        return reference === undefined ? volume : { ...volume, image: { ...volume.image, reference } };
      }),
    }),
  };
}

/** Image as the pod names it → the same by digest, where its runtime has told one. */
function digestsOf({ spec, status }: Pod): ReadonlyMap<string, string> {
  const statuses = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  const found = new Map<string, string>();
  for (const { name, image = '' } of [...(spec.initContainers ?? []), ...spec.containers]) {
    const id = statuses.find((each) => each.name === name)?.imageID.replace(/^[a-z-]{1,32}:\/\//, '') ?? '';
    if (image !== '' && id.includes('@sha256:')) found.set(image, id);
  }
  return found;
}
