import path from 'node:path';
import { type LauncherPaths, launcherPaths } from '../domain/index.ts';
import type { LauncherOptions } from '../options.ts';

/** Where things are inside the pod: upstream's paths, which the agent and the pod's volumes rely on. */
export interface PodPaths {
  /** Directories that disks and devices use. */
  readonly disks: LauncherPaths;
  readonly shareDir: string;
  readonly socketsDir: string;
  /** The command socket until "ready". */
  readonly initSocket: string;
  /** The same socket afterwards: its existence is the readiness signal. */
  readonly commandSocket: string;
  readonly notifyPipe: string;
  /** Serial and VNC sockets, and this launcher's own state file. */
  readonly vmiDir: string;
  readonly stateFile: string;
  readonly libvirt: LibvirtPaths;
}

export interface LibvirtPaths {
  /** Sockets, pid files and our copy of the daemon's configuration. */
  readonly runDir: string;
  readonly qemuConfFile: string;
  readonly qemuPidFile: string;
  /** `<domain>.log`. */
  readonly qemuLogDir: string;
  /** XDG directories of a session daemon; undefined for root, whose paths are built into libvirt. */
  readonly xdg?: { readonly runtimeDir: string; readonly configDir: string; readonly cacheDir: string };
}

/** `root` moves everything below another directory; only a session daemon can follow there (tests). */
export function podPaths(
  options: Pick<
    LauncherOptions,
    'shareDir' | 'ephemeralDiskDir' | 'containerDiskDir' | 'hotplugDiskDir' | 'runAsNonroot' | 'uid'
  >,
  domain: string,
  root?: string,
): PodPaths {
  const at = (absolute: string) => path.join(root ?? '/', absolute);
  const disks: LauncherPaths = {
    ...launcherPaths({ nonRoot: options.runAsNonroot, ...(root !== undefined && { root }) }),
    ephemeralDir: at(options.ephemeralDiskDir),
    containerDiskDir: at(options.containerDiskDir),
    hotplugDiskDir: at(options.hotplugDiskDir),
  };
  const shareDir = at(options.shareDir);
  const socketsDir = path.join(shareDir, 'sockets');
  const vmiDir = path.join(disks.privateDir, options.uid);
  return {
    disks,
    shareDir,
    socketsDir,
    initSocket: path.join(socketsDir, 'launcher-init-sock'),
    commandSocket: path.join(socketsDir, 'launcher-sock'),
    notifyPipe: path.join(shareDir, 'domain-notify-pipe.sock'),
    vmiDir,
    stateFile: path.join(disks.privateDir, 'launcher-state.json'),
    libvirt: options.runAsNonroot ? sessionPaths(at, disks.privateDir, domain) : systemPaths(at, domain),
  };
}

function systemPaths(at: (absolute: string) => string, domain: string): LibvirtPaths {
  const runDir = at('/var/run/libvirt');
  return {
    runDir,
    qemuConfFile: at('/etc/libvirt/qemu.conf'),
    qemuPidFile: path.join(runDir, 'qemu', `${domain}.pid`),
    qemuLogDir: at('/var/log/libvirt/qemu'),
  };
}

function sessionPaths(at: (absolute: string) => string, privateDir: string, domain: string): LibvirtPaths {
  const runtimeDir = at('/var/run');
  const runDir = path.join(runtimeDir, 'libvirt');
  return {
    runDir,
    qemuConfFile: path.join(privateDir, 'libvirt', 'qemu.conf'),
    qemuPidFile: path.join(runDir, 'qemu', 'run', `${domain}.pid`),
    qemuLogDir: path.join(privateDir, 'libvirt', 'qemu', 'log'),
    xdg: { runtimeDir, configDir: privateDir, cacheDir: privateDir },
  };
}
