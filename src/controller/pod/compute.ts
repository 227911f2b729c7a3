import { createHash } from 'node:crypto';
import type { Container, VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { PodRenderError } from './errors.ts';
import type { HookSidecars } from './hook-sidecars.ts';
import { probes } from './probes.ts';
import type { PodResources } from './resources.ts';
import type { PodStorage } from './storage.ts';
import { ownDirectories } from './user.ts';

const defaultGraceSeconds = 30;
/** Between the end of the guest's grace period and that of its launcher, and from there to that of the pod. */
const launcherGraceSeconds = 15;

function guestGraceSeconds(vmi: VirtualMachineInstance): number {
  return vmi.spec.terminationGracePeriodSeconds ?? defaultGraceSeconds;
}

export function podGraceSeconds(vmi: VirtualMachineInstance): number {
  return guestGraceSeconds(vmi) + 2 * launcherGraceSeconds;
}

export interface ComputeParts {
  readonly nonRoot: boolean;
  readonly resources: PodResources;
  readonly storage: PodStorage;
  readonly hooks: HookSidecars;
}

/** The launcher's own container. Throws PodRenderError. */
export function computeContainer(
  vmi: VirtualMachineInstance,
  config: ControllerConfig,
  { nonRoot, resources, storage, hooks }: ComputeParts,
): Container {
  const { requests, limits, claims } = resources;
  return {
    name: 'compute',
    image: config.launcherImage,
    imagePullPolicy: config.imagePullPolicy,
    command: launcherCommand(vmi, config, { nonRoot, sidecars: hooks.containers.length }),
    env: launcherEnvironment(vmi, config, { nonRoot, sharedPaths: storage.sharedPaths }),
    resources: { requests, limits, ...(claims.length > 0 && { claims }) },
    securityContext: nonRoot ? nonRootContext : rootContext,
    ...ports(vmi),
    ...probes(vmi),
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: [...storage.mounts, ...hooks.mounts],
    ...(storage.devices.length > 0 && { volumeDevices: storage.devices }),
  };
}

const rootContext = { runAsUser: 0, runAsNonRoot: false, capabilities: { add: ['NET_BIND_SERVICE', 'SYS_NICE'] } };
const nonRootContext = {
  runAsUser: 107,
  runAsGroup: 107,
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'], add: ['NET_BIND_SERVICE'] },
};

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

interface LauncherShape {
  readonly nonRoot: boolean;
  readonly sidecars: number;
}

function launcherCommand(
  vmi: VirtualMachineInstance,
  config: ControllerConfig,
  { nonRoot, sidecars }: LauncherShape,
): string[] {
  const { namespace = 'default', name, uid = '' } = vmi.metadata;
  const own = vmi.metadata.annotations ?? {};
  const keepAlive = own['kubevirt.io/keep-launcher-alive-after-failure'];
  const logFilters = own['kubevirt.io/libvirt-log-filters'];
  return [
    '/usr/bin/virt-launcher-monitor',
    ...['--qemu-timeout', `${qemuTimeoutSeconds(uid, config)}s`],
    ...['--name', name, '--uid', uid, '--namespace', namespace],
    ...['--kubevirt-share-dir', '/var/run/kubevirt'],
    ...['--ephemeral-disk-dir', '/var/run/kubevirt-ephemeral-disks'],
    ...['--container-disk-dir', '/var/run/kubevirt/container-disks'],
    ...['--grace-period-seconds', String(guestGraceSeconds(vmi) + launcherGraceSeconds)],
    ...['--hook-sidecars', String(sidecars)],
    ...['--ovmf-path', config.ovmfPaths[vmi.spec.architecture ?? config.architecture] ?? ''],
    ...['--disk-memory-limit', String(config.diskMemoryLimitBytes)],
    ...['--hypervisor', 'kvm'],
    ...(nonRoot ? ['--run-as-nonroot'] : []),
    ...(config.imageVolume ? ['--image-volume'] : []),
    ...config.launcherPods.launcherFlags,
    ...(logFilters ? ['--libvirt-log-filters', logFilters] : []),
    ...(config.useEmulation ? ['--allow-emulation'] : []),
    ...(keepAlive !== undefined && (keepAlive === '' || keepAlive.startsWith('true')) ? ['--keep-after-failure'] : []),
    ...(own['kubevirt.io/func-test-virt-launcher-fail-fast'] === undefined ? [] : ['--simulate-crash']),
  ];
}

/** Up to 119 s more: spread over the VMIs so that they do not give up all at once, the same for each VMI. */
function qemuTimeoutSeconds(uid: string, config: ControllerConfig): number {
  return config.qemuTimeoutSeconds + (createHash('sha256').update(uid).digest().readUInt16BE(5) % 120);
}

interface LauncherSurroundings {
  readonly nonRoot: boolean;
  readonly sharedPaths: readonly string[];
}

function launcherEnvironment(
  vmi: VirtualMachineInstance,
  config: ControllerConfig,
  { nonRoot, sharedPaths }: LauncherSurroundings,
): EnvList {
  const env = ownDirectories(nonRoot);
  if (sharedPaths.length > 0) env.push({ name: 'SHARED_FILESYSTEM_PATHS', value: sharedPaths.join(':') });
  const verbosity = logVerbosity(vmi, config);
  if (verbosity !== 2) env.push({ name: 'VIRT_LAUNCHER_LOG_VERBOSITY', value: String(verbosity) });
  if (vmi.metadata.labels?.debugLogs?.toLowerCase() === 'true' || verbosity > 5)
    env.push({ name: 'LIBVIRT_DEBUG_LOGS', value: '1' });
  if (vmi.metadata.labels?.virtiofsdDebugLogs?.toLowerCase() === 'true' || verbosity > 5) {
    env.push({ name: 'VIRTIOFSD_DEBUG_LOGS', value: '1' });
  }
  env.push({ name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } });
  return env;
}

type EnvList = NonNullable<Container['env']>;

/** Throws PodRenderError BAD_LABEL. */
export function logVerbosity(vmi: VirtualMachineInstance, config: ControllerConfig): number {
  const own = vmi.metadata.labels?.logVerbosity;
  if (own === undefined) return config.launcherVerbosity;
  if (/^\d+$/.test(own)) return Number(own);
  throw new PodRenderError('BAD_LABEL', `label logVerbosity must be a whole number, not ${JSON.stringify(own)}`);
}
