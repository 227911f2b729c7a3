import { FlagError, type FlagTable, flagUsage, parseGoFlags } from '../base/index.ts';
import { LauncherError } from './errors.ts';
import type { LauncherOptions } from './options.ts';

/** In the order of upstream's `cmd/virt-launcher/virt-launcher.go`. */
const flags = {
  'qemu-timeout': { kind: 'duration', fallback: 180_000, help: 'limit for the first domain and for hook sidecars' },
  'kubevirt-share-dir': {
    kind: 'string',
    fallback: '/var/run/kubevirt',
    help: 'directory of the notify pipe and the command socket',
  },
  'ephemeral-disk-dir': {
    kind: 'string',
    fallback: '/var/run/kubevirt-ephemeral-disks',
    help: 'directory of overlays and ISOs',
  },
  'container-disk-dir': {
    kind: 'string',
    fallback: '/var/run/kubevirt/container-disks',
    help: 'directory of containerDisk files',
  },
  'hotplug-disk-dir': {
    kind: 'string',
    fallback: '/var/run/kubevirt/hotplug-disks/',
    help: 'directory of hot-plugged volumes',
  },
  name: { kind: 'string', fallback: '', help: 'name of the VMI' },
  namespace: { kind: 'string', fallback: '', help: 'namespace of the VMI' },
  uid: { kind: 'string', fallback: '', help: 'UID of the VMI' },
  'grace-period-seconds': { kind: 'int', fallback: 30, help: 'from SIGTERM to the forced end of the domain' },
  'hook-sidecars': { kind: 'int', fallback: 0, help: 'number of hook sidecar sockets to wait for' },
  'allow-emulation': { kind: 'bool', fallback: false, help: 'software emulation may be used where KVM is missing' },
  'allow-cross-arch-emulation': { kind: 'bool', fallback: false, help: 'other architectures may be emulated' },
  'run-as-nonroot': { kind: 'bool', fallback: false, help: 'this process is not root: use a session libvirt daemon' },
  'image-volume': { kind: 'bool', fallback: false, help: 'containerDisks are image volumes' },
  'libvirt-hook-server-and-client': { kind: 'bool', fallback: false, help: 'serve libvirt pre-migration hooks' },
  'upgrade-ordinal-ifaces': { kind: 'bool', fallback: false, help: 'pre-migration hook for ordinal interface names' },
  'vgpu-dedicated-hook': { kind: 'bool', fallback: false, help: 'pre-migration hook for vGPUs' },
  'vm-stats-collector': { kind: 'bool', fallback: false, help: 'enable GetVMStats' },
  'firmware-auto-selection': { kind: 'bool', fallback: false, help: 'libvirt chooses the EFI firmware' },
  'disk-memory-limit': { kind: 'int', fallback: 2_097_152_000, help: 'address space of qemu-img on images, in bytes' },
  'ovmf-path': { kind: 'string', fallback: '/usr/share/edk2/ovmf', help: 'directory of EFI firmware' },
  'qemu-agent-sys-interval': { kind: 'duration', fallback: 120_000, help: 'guest agent: OS, interfaces, host name' },
  'qemu-agent-file-interval': { kind: 'duration', fallback: 300_000, help: 'guest agent: filesystems' },
  'qemu-agent-user-interval': { kind: 'duration', fallback: 10_000, help: 'guest agent: users' },
  'qemu-agent-version-interval': { kind: 'duration', fallback: 300_000, help: 'guest agent: its version' },
  'qemu-fsfreeze-status-interval': { kind: 'duration', fallback: 5_000, help: 'guest agent: freeze status' },
  'simulate-crash': { kind: 'bool', fallback: false, help: 'fail after directory set-up' },
  'libvirt-log-filters': { kind: 'string', fallback: '', help: 'value of log_filters for the libvirt daemon' },
  hypervisor: { kind: 'string', fallback: 'kvm', help: 'hypervisor of this node' },
  v: { kind: 'int', short: 'v', fallback: 2, help: 'log verbosity' },
} as const satisfies FlagTable;

export type ParsedFlags =
  | { readonly kind: 'options'; readonly options: LauncherOptions }
  | { readonly kind: 'help'; readonly text: string };

/** Parses `argv` without the program's name. Throws `LauncherError` BAD_FLAG, whose message says what is wrong. */
export function parseLauncherFlags(argv: readonly string[]): ParsedFlags {
  const values = parseOrExplain(argv);
  if (!values) return { kind: 'help', text: launcherUsage() };
  const options: LauncherOptions = {
    qemuTimeoutMs: values['qemu-timeout'],
    shareDir: values['kubevirt-share-dir'],
    ephemeralDiskDir: values['ephemeral-disk-dir'],
    containerDiskDir: values['container-disk-dir'],
    hotplugDiskDir: values['hotplug-disk-dir'],
    name: values.name,
    namespace: values.namespace,
    uid: values.uid,
    gracePeriodSeconds: values['grace-period-seconds'],
    hookSidecars: values['hook-sidecars'],
    allowEmulation: values['allow-emulation'],
    allowCrossArchEmulation: values['allow-cross-arch-emulation'],
    runAsNonroot: values['run-as-nonroot'],
    imageVolume: values['image-volume'],
    libvirtHookServerAndClient: values['libvirt-hook-server-and-client'],
    upgradeOrdinalIfaces: values['upgrade-ordinal-ifaces'],
    vgpuDedicatedHook: values['vgpu-dedicated-hook'],
    vmStatsCollector: values['vm-stats-collector'],
    firmwareAutoSelection: values['firmware-auto-selection'],
    diskMemoryLimitBytes: values['disk-memory-limit'],
    ovmfPath: values['ovmf-path'],
    qemuAgentSysIntervalMs: values['qemu-agent-sys-interval'],
    qemuAgentFileIntervalMs: values['qemu-agent-file-interval'],
    qemuAgentUserIntervalMs: values['qemu-agent-user-interval'],
    qemuAgentVersionIntervalMs: values['qemu-agent-version-interval'],
    qemuFsfreezeStatusIntervalMs: values['qemu-fsfreeze-status-interval'],
    simulateCrash: values['simulate-crash'],
    libvirtLogFilters: values['libvirt-log-filters'],
    hypervisor: values.hypervisor,
    verbosity: values.v,
  };
  return { kind: 'options', options };
}

/** The text of `--help` and of a wrong command line. */
export function launcherUsage(): string {
  return flagUsage('virt-launcher', flags);
}

function parseOrExplain(argv: readonly string[]) {
  try {
    return parseGoFlags(flags, argv);
  } catch (cause) {
    if (cause instanceof FlagError) throw new LauncherError('BAD_FLAG', cause.message, { cause });
    throw cause;
  }
}
