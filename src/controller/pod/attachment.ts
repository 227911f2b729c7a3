import { labels, type Pod, type VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import type { AttachedClaim } from './attachment-pods.ts';
import { PodRenderError } from './errors.ts';

const container = 'hotplug-disk';
const disksVolume = 'hotplug-disks';
const user = 107;

/** What a node may suffer from while its guest runs on: the disk has to come all the same. */
const toleratedTaints = [
  'node.kubernetes.io/unschedulable',
  'node.kubernetes.io/network-unavailable',
  'node.kubernetes.io/disk-pressure',
  'node.kubernetes.io/memory-pressure',
  'node.kubernetes.io/pid-pressure',
];

interface Toleration {
  readonly key?: string;
  readonly [field: string]: unknown;
}

/**
 * The pod that brings claims to the node of a launcher (upstream: RenderHotplugAttachmentPodTemplate in
 * pkg/virt-controller/services/template.go). The agent finds block devices and the socket of its program in the emptyDir, and file systems through
 * the program's process. Pure. Throws PodRenderError.
 */
export function renderAttachmentPod(
  name: string,
  vmi: VirtualMachineInstance,
  launcher: Pod,
  claims: readonly AttachedClaim[],
  config: ControllerConfig,
): Pod {
  const volumes = [
    { name: disksVolume, emptyDir: {} },
    ...claims.map(({ volume, claim }) => ({ name: volume, persistentVolumeClaim: { claimName: claim } })),
  ];
  return podBeside(launcher, name, { containers: [programContainer(vmi, claims, config)], volumes }, config);
}

/**
 * A pod that asks for the launcher's node and for a claim, and does nothing there: a DataVolume that waits for a first consumer is filled then
 * (upstream: RenderHotplugAttachmentTriggerPodTemplate). Pure.
 */
export function renderTriggerPod(name: string, launcher: Pod, claim: string, config: ControllerConfig): Pod {
  const program = {
    ...{ name: container, image: config.launcherImage, imagePullPolicy: config.imagePullPolicy },
    command: ['/bin/sh', '-c', 'exit 0'],
    ...{ resources, securityContext: confined },
  };
  const volumes = [{ name: 'claim', persistentVolumeClaim: { claimName: claim } }];
  const pod = podBeside(launcher, name, { restartPolicy: 'Never', containers: [program], volumes }, config);
  return {
    ...pod,
    metadata: { ...pod.metadata, annotations: { 'kubevirt.io/ephemeral-provisioning': 'true' } },
  };
}

/** On the launcher's node, and gone with it. */
function podBeside(launcher: Pod, name: string, spec: Pod['spec'], config: ControllerConfig): Pod {
  const { namespace = 'default', name: ownerName, uid = '' } = launcher.metadata;
  const owner = { apiVersion: 'v1', kind: 'Pod', name: ownerName, uid, controller: true, blockOwnerDeletion: true };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      generateName: 'hp-volume-',
      namespace,
      labels: { [labels.app]: container },
      ownerReferences: [owner],
    },
    spec: {
      affinity: onNode(launcher.spec.nodeName ?? ''),
      tolerations: tolerations(launcher),
      terminationGracePeriodSeconds: 0,
      ...pullSecrets(config),
      ...spec,
    },
  };
}

const resources = { requests: { cpu: '10m', memory: '2M' }, limits: { cpu: '100m', memory: '80M' } };
const confined = {
  allowPrivilegeEscalation: false,
  runAsNonRoot: true,
  runAsUser: user,
  seccompProfile: { type: 'RuntimeDefault' },
  capabilities: { drop: ['ALL'] },
};

const pullSecrets = ({ imagePullSecret: name }: ControllerConfig) => (name ? { imagePullSecrets: [{ name }] } : {});

function programContainer(vmi: VirtualMachineInstance, claims: readonly AttachedClaim[], config: ControllerConfig) {
  const devices = claims.filter(({ isBlock, claimUid }) => isBlock && claimUid !== '');
  const mounts = claims.filter(({ isBlock, isMounted }) => !isBlock && !isMounted);
  return {
    name: container,
    image: config.launcherImage,
    imagePullPolicy: config.imagePullPolicy,
    command: ['/bin/sh', '-c', '/usr/bin/container-disk --copy-path /path/hp'],
    resources,
    securityContext: { ...confined, seLinuxOptions: { level: selinuxLevel(vmi) } },
    volumeMounts: [
      { name: disksVolume, mountPath: '/path', mountPropagation: 'HostToContainer' as const },
      ...mounts.map(({ volume }) => ({ name: volume, mountPath: `/${volume}` })),
    ],
    ...(devices.length > 0 && {
      volumeDevices: devices.map(({ volume, claimUid }) => ({
        name: volume,
        devicePath: `/path/${volume}/${claimUid}`,
      })),
    }),
  };
}

/** QEMU of the launcher has to be allowed to open what this pod shows. The agent writes the launcher's label. */
function selinuxLevel({ status }: VirtualMachineInstance): string {
  const label = status?.selinuxContext;
  if (typeof label !== 'string' || label === '') {
    throw new PodRenderError('NO_SELINUX_CONTEXT', 'VMI is missing SELinux context');
  }
  if (label === 'none') return 's0';
  const level = label.split(':').slice(3).join(':');
  if (level !== '') return level;
  throw new PodRenderError('NO_SELINUX_CONTEXT', `VMI has invalid SELinux context: ${label}`);
}

function onNode(node: string) {
  const matchExpressions = [{ key: 'kubernetes.io/hostname', operator: 'In', values: [node] }];
  return {
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions }] } },
  };
}

function tolerations(launcher: Pod): Toleration[] {
  const own = toleratedTaints.map((key) => ({ key, operator: 'Exists', effect: 'NoSchedule' }));
  const all: Toleration[] = [...own, ...((launcher.spec.tolerations as Toleration[] | undefined) ?? [])];
  const distinct = new Map(all.map((one) => [JSON.stringify(one), one]));
  return [...distinct.values()].sort((a, b) => (a.key ?? '').localeCompare(b.key ?? ''));
}
