import { createHash } from 'node:crypto';
import type { OwnerReference, Pod, VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { computeContainer, logVerbosity, podGraceSeconds } from './compute.ts';
import { consoleLog } from './console-log.ts';
import { diskContainers } from './disk-containers.ts';
import { PodRenderError } from './errors.ts';
import { hookSidecars } from './hook-sidecars.ts';
import { hasIstioProxy, hostnameOf, podAnnotations, podLabels } from './pod-metadata.ts';
import { renderResources } from './resources.ts';
import { affinityOf, nodeSelector } from './scheduling.ts';
import { virtiofsContainers } from './virtiofs-containers.ts';
import { type ClaimsByName, renderStorage } from './volumes.ts';

/**
 * The launcher pod of a VMI (upstream: pkg/virt-controller/services/template.go; what one node needs). A pure function: the same VMI and salt
 * give the same pod, name included, so that creating it twice cannot make two. `claims`: those of its volumes that are there; `stateClaim`: what keeps
 * its TPM and EFI variables. Throws PodRenderError.
 */
export function renderLauncherPod(
  given: VirtualMachineInstance,
  config: ControllerConfig,
  salt: string,
  claims: ClaimsByName = new Map(),
  stateClaim?: string,
): Pod {
  const vmi = { ...given, spec: withoutNulls(given.spec) };
  refuseTracked(vmi);
  const { namespace = 'default', name, uid = '' } = vmi.metadata;
  const { generateName, podName } = podNames(name, uid, salt);
  const nonRoot = (vmi.status?.runtimeUser ?? 0) !== 0;
  const storage = renderStorage(vmi, config, claims, stateClaim);
  const disks = diskContainers(vmi, config);
  const resources = renderResources(vmi, config);
  const hooks = hookSidecars(vmi, config);
  const reservations = reservedClaims(vmi, claims);
  const affinity = affinityOf(vmi, reservations);
  const serviceAccountName = vmi.spec.serviceAccountName || accountOfVolume(vmi);
  const console = consoleLog(vmi, config, logVerbosity(vmi, config));
  const initContainers = [...(console ? [console] : []), ...disks.initContainers];
  const { subdomain } = vmi.spec;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: podName,
      generateName,
      namespace,
      labels: { ...podLabels(vmi), ...Object.fromEntries(reservations.map((key) => [key, ''])) },
      annotations: podAnnotations(vmi, config, resources),
      ownerReferences: [ownerReference(vmi)],
    },
    spec: {
      restartPolicy: 'Never',
      hostname: hostnameOf(vmi),
      ...(subdomain ? { subdomain } : {}),
      ...copied(vmi),
      ...(affinity && { affinity }),
      ...(config.defaultRuntimeClass ? { runtimeClassName: config.defaultRuntimeClass } : {}),
      ...(serviceAccountName ? { serviceAccountName } : {}),
      automountServiceAccountToken: accountOfVolume(vmi) !== undefined || hasIstioProxy(vmi),
      enableServiceLinks: false,
      terminationGracePeriodSeconds: podGraceSeconds(vmi),
      readinessGates: [{ conditionType: 'kubevirt.io/virtual-machine-unpaused' }],
      nodeSelector: nodeSelector(vmi, config),
      securityContext: securityContext(nonRoot, config),
      ...pullSecrets(vmi, config),
      ...(initContainers.length > 0 && { initContainers }),
      containers: [
        computeContainer(vmi, config, { nonRoot, resources, storage, hooks }),
        ...disks.containers,
        ...virtiofsContainers(vmi, config, claims),
        ...hooks.containers,
      ],
      volumes: [...storage.volumes, ...disks.volumes, ...hooks.volumes],
    },
  };
}

/** It is said per VM: a disk alone would not be tracked. */
function refuseTracked({ spec }: VirtualMachineInstance): void {
  const tracked = spec.domain.devices?.disks?.find(({ changedBlockTracking }) => changedBlockTracking);
  if (!tracked) return;
  const field = `spec.domain.devices.disks[${tracked.name}].changedBlockTracking`;
  const cure = 'changedBlockTrackingLabelSelectors select whole VMs: remove it';
  throw new PodRenderError('UNSUPPORTED', `${field}: is not supported for one disk; ${cure}`);
}

function securityContext(nonRoot: boolean, { launcherPods, launcherGroup }: ControllerConfig) {
  const { seccompProfile, selinuxType } = launcherPods;
  return {
    fsGroup: launcherGroup,
    ...(nonRoot ? { runAsUser: 107, runAsGroup: 107, runAsNonRoot: true } : { runAsUser: 0 }),
    ...(seccompProfile && { seccompProfile }),
    ...(selinuxType && { seLinuxOptions: { type: selinuxType } }),
  };
}

/** Labels by which pods of one reserved disk keep apart. */
function reservedClaims({ spec }: VirtualMachineInstance, claims: ClaimsByName): string[] {
  const disks = (spec.domain.devices?.disks ?? []).filter(({ lun }) => lun?.reservation).map(({ name }) => name);
  return (spec.volumes ?? []).flatMap(({ name, persistentVolumeClaim, dataVolume }) => {
    const claim = claims.get(persistentVolumeClaim?.claimName ?? dataVolume?.name ?? '');
    return disks.includes(name) && claim?.metadata.uid ? [`pr.kubevirt.io/${claim.metadata.uid}`] : [];
  });
}

const accountOfVolume = ({ spec }: VirtualMachineInstance) =>
  spec.volumes?.find(({ serviceAccount }) => serviceAccount)?.serviceAccount?.serviceAccountName;

function ownerReference({ apiVersion, kind, metadata }: VirtualMachineInstance): OwnerReference {
  const { name, uid = '' } = metadata;
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** A field that is null counts as absent, as in Kubernetes. */
function withoutNulls<T>(value: T): T {
  if (Array.isArray(value)) return value.map(withoutNulls) as T;
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(entries.map(([name, field]) => [name, withoutNulls(field)])) as T;
}

/**
 * As the API server would make it from generateName, but with the same letters each time for the same VMI and salt. Who does not
 * know the salt cannot be there first with a pod of this name.
 */
export function podNames(vmiName: string, uid: string, salt: string): { generateName: string; podName: string } {
  const generateName = `virt-launcher-${vmiName}-`;
  const suffix = randomLetters(createHash('sha256').update(`${salt} ${uid}`).digest());
  return { generateName, podName: generateName.slice(0, 58) + suffix };
}

/** Five of the letters that the API server takes for generateName. */
export function randomLetters(digest: Buffer): string {
  const alphabet = 'bcdfghjklmnpqrstvwxz2456789';
  return [...digest.subarray(0, 5)].map((byte) => alphabet[byte % alphabet.length]).join('');
}

/** Scheduling and network fields that the pod takes over as they are. */
function copied(vmi: VirtualMachineInstance): Record<string, unknown> {
  const fields = [
    'tolerations',
    'topologySpreadConstraints',
    'schedulerName',
    'priorityClassName',
    'dnsPolicy',
    'dnsConfig',
    'resourceClaims',
  ];
  return Object.fromEntries(
    fields.filter((field) => vmi.spec[field] !== undefined).map((field) => [field, vmi.spec[field]]),
  );
}

function pullSecrets(
  vmi: VirtualMachineInstance,
  { imagePullSecret }: ControllerConfig,
): { imagePullSecrets?: { name: string }[] } {
  const names = [
    ...(vmi.spec.volumes ?? []).map(({ containerDisk }) => containerDisk?.imagePullSecret),
    vmi.spec.domain.firmware?.kernelBoot?.container?.imagePullSecret,
    imagePullSecret,
  ].filter((name) => typeof name === 'string' && name !== '');
  const unique = [...new Set(names)].map((name) => ({ name: String(name) }));
  return unique.length > 0 ? { imagePullSecrets: unique } : {};
}
