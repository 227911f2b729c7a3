import { createHash } from 'node:crypto';
import {
  annotations,
  type Container,
  labels,
  type OwnerReference,
  type Pod,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { diskContainers } from './disk-containers.ts';
import { PodRenderError } from './errors.ts';
import { networkAnnotations } from './networks.ts';
import { type PodResources, renderResources } from './resources.ts';
import { virtiofsContainers } from './virtiofs-containers.ts';
import { type ClaimsByName, renderStorage } from './volumes.ts';

const defaultGraceSeconds = 30;
const privateDir = '/var/run/kubevirt-private';

/**
 * The launcher pod of a VMI (upstream: pkg/virt-controller/services/template.go; what one node needs). A pure function: the same VMI and salt
 * give the same pod, name included, so that creating it twice cannot make two. `claims`: those of its volumes that are there. Throws
 * PodRenderError.
 */
export function renderLauncherPod(
  given: VirtualMachineInstance,
  config: ControllerConfig,
  salt: string,
  claims: ClaimsByName = new Map(),
): Pod {
  const vmi = { ...given, spec: withoutNulls(given.spec) };
  const { namespace = 'default', name, uid = '' } = vmi.metadata;
  const { generateName, podName } = podNames(name, uid, salt);
  const nonRoot = (vmi.status?.runtimeUser ?? 0) !== 0;
  const storage = renderStorage(vmi, config, claims);
  const disks = diskContainers(vmi, config);
  const resources = renderResources(vmi, config);
  const { subdomain, serviceAccountName } = vmi.spec;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: podName,
      generateName,
      namespace,
      labels: podLabels(vmi),
      annotations: podAnnotations(vmi, config, resources),
      ownerReferences: [ownerReference(vmi)],
    },
    spec: {
      restartPolicy: 'Never',
      hostname: hostnameOf(vmi),
      ...(subdomain ? { subdomain } : {}),
      ...copied(vmi),
      ...(config.defaultRuntimeClass ? { runtimeClassName: config.defaultRuntimeClass } : {}),
      ...(serviceAccountName ? { serviceAccountName } : {}),
      automountServiceAccountToken: (vmi.spec.volumes ?? []).some(({ serviceAccount }) => serviceAccount),
      enableServiceLinks: false,
      terminationGracePeriodSeconds: graceSeconds(vmi) + 30,
      readinessGates: [{ conditionType: 'kubevirt.io/virtual-machine-unpaused' }],
      nodeSelector: nodeSelector(vmi, config),
      securityContext: nonRoot
        ? { fsGroup: 107, runAsUser: 107, runAsGroup: 107, runAsNonRoot: true }
        : { fsGroup: 107, runAsUser: 0 },
      ...pullSecrets(vmi),
      ...(disks.initContainers.length > 0 ? { initContainers: [...disks.initContainers] } : {}),
      containers: [
        computeContainer(vmi, config, { nonRoot, resources, storage }),
        ...disks.containers,
        ...virtiofsContainers(vmi, config, claims),
      ],
      volumes: storage.volumes,
    },
  };
}

function ownerReference({ apiVersion, kind, metadata }: VirtualMachineInstance): OwnerReference {
  const { name, uid = '' } = metadata;
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

interface ComputeParts {
  readonly nonRoot: boolean;
  readonly resources: PodResources;
  readonly storage: ReturnType<typeof renderStorage>;
}

function computeContainer(
  vmi: VirtualMachineInstance,
  config: ControllerConfig,
  { nonRoot, resources, storage }: ComputeParts,
): Container {
  return {
    name: 'compute',
    image: config.launcherImage,
    imagePullPolicy: config.imagePullPolicy,
    command: launcherCommand(vmi, config, nonRoot),
    env: launcherEnvironment(vmi, config, nonRoot),
    resources: { requests: resources.requests, limits: resources.limits },
    securityContext: nonRoot ? nonRootContext : rootContext,
    ...ports(vmi),
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: storage.mounts,
    ...(storage.devices.length > 0 && { volumeDevices: storage.devices }),
  };
}

/** A field that is null counts as absent, as in Kubernetes. */
function withoutNulls<T>(value: T): T {
  if (Array.isArray(value)) return value.map(withoutNulls) as T;
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(entries.map(([name, field]) => [name, withoutNulls(field)])) as T;
}

const rootContext = { runAsUser: 0, capabilities: { add: ['NET_BIND_SERVICE', 'SYS_NICE'] } };
const nonRootContext = {
  runAsUser: 107,
  runAsGroup: 107,
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'], add: ['NET_BIND_SERVICE'] },
};

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

function graceSeconds(vmi: VirtualMachineInstance): number {
  return vmi.spec.terminationGracePeriodSeconds ?? defaultGraceSeconds;
}

function hostnameOf(vmi: VirtualMachineInstance): string {
  return vmi.spec.hostname || (vmi.metadata.name.split('.')[0] ?? '').slice(0, 63).replace(/-+$/, '');
}

function podLabels(vmi: VirtualMachineInstance): Record<string, string> {
  const { name, uid = '' } = vmi.metadata;
  const hash = createHash('sha1').update(name).digest('hex').slice(0, 8);
  return {
    ...vmi.metadata.labels,
    [labels.app]: 'virt-launcher',
    [labels.createdBy]: uid,
    [labels.vmName]: hostnameOf(vmi),
    'vmi.kubevirt.io/id': name.length > 63 ? `${name.slice(0, 54)}-${hash}` : name,
  };
}

function podAnnotations(
  vmi: VirtualMachineInstance,
  { networkBindings }: ControllerConfig,
  { overheadBytes }: PodResources,
): Record<string, string> {
  const notCopied = ['kubevirt.io/latest-observed-api-version', 'kubevirt.io/storage-observed-api-version'];
  const copies = Object.entries(vmi.metadata.annotations ?? {}).filter(
    ([key]) => !key.startsWith('kubectl.kubernetes.io') && !notCopied.includes(key),
  );
  const hasMasquerade = vmi.spec.domain.devices?.interfaces?.some(({ masquerade }) => masquerade);
  return {
    ...Object.fromEntries(copies),
    [annotations.domain]: vmi.metadata.name,
    'kubectl.kubernetes.io/default-container': 'compute',
    'kubevirt.io/migrationTransportUnix': 'true',
    'descheduler.alpha.kubernetes.io/request-evict-only': '',
    'kubevirt.io/memory-overhead-bytes': String(overheadBytes),
    ...networkAnnotations(vmi, networkBindings),
    ...(hasMasquerade
      ? { 'traffic.sidecar.istio.io/kubevirtInterfaces': 'k6t-eth0', 'istio.io/reroute-virtual-interfaces': 'k6t-eth0' }
      : {}),
  };
}

/** Scheduling and network fields that the pod takes over as they are. */
function copied(vmi: VirtualMachineInstance): Record<string, unknown> {
  const fields = [
    'affinity',
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

function nodeSelector(vmi: VirtualMachineInstance, config: ControllerConfig): Record<string, string> {
  return {
    ...config.nodeSelectors,
    ...vmi.spec.nodeSelector,
    [labels.schedulable]: 'true',
    'kubernetes.io/arch': vmi.spec.architecture ?? config.architecture,
  };
}

function pullSecrets(vmi: VirtualMachineInstance): { imagePullSecrets?: { name: string }[] } {
  const names = [
    ...(vmi.spec.volumes ?? []).map(({ containerDisk }) => containerDisk?.imagePullSecret),
    vmi.spec.domain.firmware?.kernelBoot?.container?.imagePullSecret,
  ].filter((name) => typeof name === 'string' && name !== '');
  const unique = [...new Set(names)].map((name) => ({ name: String(name) }));
  return unique.length > 0 ? { imagePullSecrets: unique } : {};
}

function ports(vmi: VirtualMachineInstance): { ports?: object[] } {
  const found = (vmi.spec.domain.devices?.interfaces ?? []).flatMap(({ ports: list = [] }) => list);
  if (found.length === 0) return {};
  return {
    ports: found.map(({ name, protocol, port }) => ({
      ...(name ? { name } : {}),
      protocol: protocol || 'TCP',
      containerPort: port,
    })),
  };
}

function launcherCommand(vmi: VirtualMachineInstance, config: ControllerConfig, nonRoot: boolean): string[] {
  const { namespace = 'default', name, uid = '' } = vmi.metadata;
  const own = vmi.metadata.annotations ?? {};
  const keepAlive = own['kubevirt.io/keep-launcher-alive-after-failure'];
  const logFilters = own['kubevirt.io/libvirt-log-filters'];
  return [
    '/usr/bin/virt-launcher-monitor',
    ...['--qemu-timeout', `${qemuTimeoutSeconds(uid)}s`],
    ...['--name', name, '--uid', uid, '--namespace', namespace],
    ...['--kubevirt-share-dir', '/var/run/kubevirt'],
    ...['--ephemeral-disk-dir', '/var/run/kubevirt-ephemeral-disks'],
    ...['--container-disk-dir', '/var/run/kubevirt/container-disks'],
    ...['--grace-period-seconds', String(graceSeconds(vmi) + 15)],
    ...['--hook-sidecars', '0'],
    ...['--ovmf-path', config.ovmfPath],
    ...['--disk-memory-limit', String(config.diskMemoryLimitBytes)],
    ...['--hypervisor', 'kvm'],
    ...(nonRoot ? ['--run-as-nonroot'] : []),
    ...(config.imageVolume ? ['--image-volume'] : []),
    ...(logFilters ? ['--libvirt-log-filters', logFilters] : []),
    ...(config.useEmulation ? ['--allow-emulation'] : []),
    ...(keepAlive !== undefined && (keepAlive === '' || keepAlive.startsWith('true')) ? ['--keep-after-failure'] : []),
  ];
}

/** 240 s and up to 119 more: spread over the VMIs so that they do not give up all at once, the same for each VMI. */
function qemuTimeoutSeconds(uid: string): number {
  return 240 + (createHash('sha256').update(uid).digest().readUInt16BE(5) % 120);
}

function launcherEnvironment(vmi: VirtualMachineInstance, config: ControllerConfig, nonRoot: boolean): EnvList {
  const env: EnvList = [];
  if (nonRoot) {
    env.push({ name: 'XDG_CACHE_HOME', value: privateDir }, { name: 'XDG_CONFIG_HOME', value: privateDir });
    env.push({ name: 'XDG_RUNTIME_DIR', value: '/var/run' });
  }
  const verbosity = logVerbosity(vmi, config);
  if (verbosity !== 2) env.push({ name: 'VIRT_LAUNCHER_LOG_VERBOSITY', value: String(verbosity) });
  if (vmi.metadata.labels?.debugLogs === 'true' || verbosity > 5) env.push({ name: 'LIBVIRT_DEBUG_LOGS', value: '1' });
  if (vmi.metadata.labels?.virtiofsdDebugLogs?.toLowerCase() === 'true' || verbosity > 5) {
    env.push({ name: 'VIRTIOFSD_DEBUG_LOGS', value: '1' });
  }
  env.push({ name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } });
  return env;
}

type EnvList = NonNullable<Pod['spec']['containers'][number]['env']>;

function logVerbosity(vmi: VirtualMachineInstance, config: ControllerConfig): number {
  const own = vmi.metadata.labels?.logVerbosity;
  if (own === undefined) return config.launcherVerbosity;
  if (/^\d+$/.test(own)) return Number(own);
  throw new PodRenderError('BAD_LABEL', `label logVerbosity must be a whole number, not ${JSON.stringify(own)}`);
}
