/** The command line of `cmd/virt-launcher/virt-launcher.go`. Upstream's names and defaults are in `flags.ts`. */
export interface LauncherOptions {
  /** Limit for the first domain and for hook sidecars. */
  readonly qemuTimeoutMs: number;
  readonly shareDir: string;
  readonly ephemeralDiskDir: string;
  readonly containerDiskDir: string;
  readonly hotplugDiskDir: string;
  /** Identity of the VMI; a request for another one is refused. */
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  /** From SIGTERM to the forced end of the domain. */
  readonly gracePeriodSeconds: number;
  readonly hookSidecars: number;
  readonly allowEmulation: boolean;
  readonly allowCrossArchEmulation: boolean;
  readonly runAsNonroot: boolean;
  readonly imageVolume: boolean;
  readonly libvirtHookServerAndClient: boolean;
  readonly upgradeOrdinalIfaces: boolean;
  readonly vgpuDedicatedHook: boolean;
  readonly vmStatsCollector: boolean;
  readonly firmwareAutoSelection: boolean;
  readonly diskMemoryLimitBytes: number;
  readonly ovmfPath: string;
  readonly qemuAgentSysIntervalMs: number;
  readonly qemuAgentFileIntervalMs: number;
  readonly qemuAgentUserIntervalMs: number;
  readonly qemuAgentVersionIntervalMs: number;
  readonly qemuFsfreezeStatusIntervalMs: number;
  readonly simulateCrash: boolean;
  readonly libvirtLogFilters: string;
  readonly hypervisor: string;
  readonly verbosity: number;
}

/** What the pod's environment says. Read by `src/bin`. */
export interface LauncherEnvironment {
  readonly podName: string;
  /** `VIRT_LAUNCHER_NETWORK`: `user` replaces the agent-made tap device by QEMU's user networking. */
  readonly network: 'user' | 'tap';
  /** `VIRT_LAUNCHER_KVM`: the node's answer to "do guests run on /dev/kvm"; absent: this launcher finds out itself. */
  readonly kvm?: 'works' | 'fails';
  /** `SHARED_FILESYSTEM_PATHS`, split at `:`. */
  readonly sharedFilesystemPaths: readonly string[];
  readonly virtiofsdDebug: boolean;
  /** `LIBVIRT_DEBUG_LOGS` is set. */
  readonly libvirtDebug: boolean;
  /** `STANDALONE_VMI`: a VMI object as YAML or JSON. */
  readonly standaloneVmi?: string;
  /** Environment of the programs this launcher starts. */
  readonly child: Readonly<Record<string, string | undefined>>;
  readonly uid: number;
  readonly gid: number;
}

/** Reads the pod's environment. `uid` and `gid` are the process's own. */
export function launcherEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  ids: { readonly uid: number; readonly gid: number },
): LauncherEnvironment {
  const kvm = env.VIRT_LAUNCHER_KVM;
  const standaloneVmi = env.STANDALONE_VMI;
  return {
    podName: env.POD_NAME ?? '',
    network: env.VIRT_LAUNCHER_NETWORK === 'user' ? 'user' : 'tap',
    ...((kvm === 'works' || kvm === 'fails') && { kvm }),
    sharedFilesystemPaths: (env.SHARED_FILESYSTEM_PATHS ?? '').split(':').filter((path) => path !== ''),
    virtiofsdDebug: env.VIRTIOFSD_DEBUG_LOGS === '1',
    libvirtDebug: env.LIBVIRT_DEBUG_LOGS !== undefined,
    ...(standaloneVmi && { standaloneVmi }),
    child: env,
    ...ids,
  };
}
