import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { type Clock, errorMessage, type Logger } from '../../base/index.ts';
import { LauncherError } from '../errors.ts';
import type { LauncherEnvironment, LauncherOptions } from '../options.ts';
import { writeDaemonConfig } from './config.ts';
import { LibvirtHypervisor } from './libvirt-hypervisor.ts';
import type { QemuUser } from './pod.ts';
import type { LibvirtPaths } from './pod-paths.ts';
import { DaemonSupervisor, daemonEnvironment, findDaemonProgram } from './supervisor.ts';

/** What is to be undone when the launcher leaves. */
export interface CleanUp {
  readonly what: string;
  readonly run: () => Promise<void> | void;
}

export interface StartLibvirtOptions {
  readonly flags: Pick<LauncherOptions, 'libvirtLogFilters' | 'runAsNonroot'>;
  readonly environment: Pick<
    LauncherEnvironment,
    'libvirtDebug' | 'virtiofsdDebug' | 'sharedFilesystemPaths' | 'child'
  >;
  readonly paths: LibvirtPaths;
  /** Given by a root launcher: the user QEMU runs as. */
  readonly qemuUser?: QemuUser;
}

export interface StartLibvirtDeps {
  readonly log: Logger;
  readonly clock: Clock;
  /** Called for each part as soon as it is there, so that a failure of the next one leaves nothing. */
  readonly onCleanUp: (cleanUp: CleanUp) => void;
}

const connectLimitMs = 15_000;
const restartDelayMs = 1000;
const outageWaitMs = 4000;
/** The client itself gives up a daemon that does not answer its pings after 25 s. */
const hungLimits = { checkMs: 2000, goneMs: 10_000 };

/** Configures and starts the pod's libvirt daemon, which takes a while until it answers. Throws `LauncherError`. */
export async function startDaemon(options: StartLibvirtOptions, deps: StartLibvirtDeps): Promise<DaemonSupervisor> {
  const { log, clock, onCleanUp } = deps;
  const daemon = new DaemonSupervisor(
    {
      program: findDaemonProgram(),
      paths: options.paths,
      configFile: await writeConfig(options),
      env: daemonEnvironment(options.environment.child, options.paths),
      restartDelayMs,
    },
    { log, clock },
  );
  onCleanUp({ what: 'libvirt daemon', run: () => daemon.stop() });
  await daemon.start();
  return daemon;
}

/** Connects to the daemon as soon as it answers, and watches that it goes on to. Throws `LauncherError`. */
export async function connectLibvirt(
  daemon: DaemonSupervisor,
  options: Pick<StartLibvirtOptions, 'flags'>,
  deps: StartLibvirtDeps,
): Promise<LibvirtHypervisor> {
  const hypervisor = await connect(daemon, options, deps);
  const stopWatching = watchForHang(hungLimits, {
    isConnected: () => hypervisor.isConnected,
    onHung: () => daemon.killHung(),
    clock: deps.clock,
  });
  deps.onCleanUp({ what: 'libvirt watch', run: stopWatching });
  return hypervisor;
}

function writeConfig({ flags, environment, paths, qemuUser }: StartLibvirtOptions): Promise<string> {
  return writeDaemonConfig({
    paths,
    ...(qemuUser && { qemuUser }),
    hostUuid: randomUUID(),
    logFilters: flags.libvirtLogFilters || (environment.libvirtDebug ? '1:qemu 1:libvirt' : ''),
    hugepages: existsSync('/dev/hugepages'),
    virtiofsdDebug: environment.virtiofsdDebug,
    sharedFilesystems: environment.sharedFilesystemPaths,
  });
}

async function connect(
  daemon: DaemonSupervisor,
  { flags }: Pick<StartLibvirtOptions, 'flags'>,
  { log, onCleanUp }: StartLibvirtDeps,
): Promise<LibvirtHypervisor> {
  const { socketPath } = daemon;
  const uri = flags.runAsNonroot ? 'qemu:///session' : 'qemu:///system';
  const hypervisor = new LibvirtHypervisor({ socketPath, uri, outageWaitMs }, { log });
  onCleanUp({ what: 'libvirt connection', run: () => hypervisor.close() });
  try {
    await hypervisor.connect(AbortSignal.timeout(connectLimitMs));
  } catch (cause) {
    const why = daemon.lastEnd ?? errorMessage(cause);
    throw new LauncherError(
      'DAEMON_FAILED',
      `libvirt at ${socketPath} did not answer within ${connectLimitMs / 1000} s: ${why}. Check the libvirt installation of this node`,
      { cause },
    );
  }
  return hypervisor;
}

interface HangWatchDeps {
  readonly isConnected: () => boolean;
  readonly onHung: () => void;
  readonly clock: Clock;
}

/**
 * Calls `onHung` when there has been no connection for `goneMs`, and again after as long: a daemon that lives but does not
 * answer (stopped, deadlocked) would otherwise stay for ever. The returned function ends it.
 */
export function watchForHang(
  limits: { readonly checkMs: number; readonly goneMs: number },
  { isConnected, onHung, clock }: HangWatchDeps,
): () => void {
  let lastSeenMs = clock.monotonicMs();
  let cancel = clock.schedule(limits.checkMs, check);
  function check(): void {
    const nowMs = clock.monotonicMs();
    if (isConnected()) lastSeenMs = nowMs;
    if (nowMs - lastSeenMs >= limits.goneMs) {
      lastSeenMs = nowMs;
      onHung();
    }
    cancel = clock.schedule(limits.checkMs, check);
  }
  return () => cancel();
}
