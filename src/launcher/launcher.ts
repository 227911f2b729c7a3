import { type Clock, errorMessage, type Logger, systemClock } from '../base/index.ts';
import { LogKeeper } from '../host/index.ts';
import type { CommandServer } from './cmd-server/index.ts';
import {
  type CleanUp,
  connectLibvirt,
  findQemuUser,
  type LibvirtHypervisor,
  makePodDirectories,
  ownSerialLog,
  type PodPaths,
  podPaths,
  type QemuUser,
  requireOwnPod,
  serialLogOf,
  startDaemon,
} from './daemon/index.ts';
import { readStandaloneVmi, type VmiIdentity } from './domain/index.ts';
import { LauncherError } from './errors.ts';
import type { HookSidecars } from './hooks/index.ts';
import type { LauncherParts } from './launcher-parts.ts';
import {
  awaitFinalNotice,
  finalNoticeLimits,
  HypervisorChoice,
  isTerminating,
  LauncherLife,
  noDomainInTime,
  reported,
  serving,
  terminationRequested,
} from './lifecycle/index.ts';
import type { Made } from './make-parts.ts';
import type { LauncherEnvironment, LauncherOptions } from './options.ts';

export interface LauncherSettings {
  readonly flags: LauncherOptions;
  readonly environment: LauncherEnvironment;
  /** Moves all paths below a directory; for tests of the session mode. */
  readonly root?: string;
}

export interface LauncherDeps {
  readonly log: Logger;
  /** Sends a signal to QEMU. */
  readonly signalProcess: (pid: number, signal: NodeJS.Signals) => void;
  readonly clock?: Clock;
}

/** Of the guest's serial log and of its older part; a UART writes less than half of it between two looks. */
const maxSerialLogBytes = 2 * 2 ** 20;
const serialLogPauseMs = 1_000;
/** A kubelet gives the pod 15 s more than its VM's grace period. */
const sidecarsEndMs = 10_000;

/** One virt-launcher: from an empty pod to the end of its VMI in upstream's order (`cmd/virt-launcher/virt-launcher.go`). */
export class Launcher {
  readonly #settings: LauncherSettings;
  readonly #deps: LauncherDeps;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #cleanUps: CleanUp[] = [];
  readonly #life: LauncherLife;
  readonly #terminating = new AbortController();

  constructor(settings: LauncherSettings, deps: LauncherDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#log = deps.log;
    this.#clock = deps.clock ?? systemClock;
    this.#life = new LauncherLife(deps);
  }

  /** Until the VMI has ended and the agent knows. Throws `LauncherError` when it cannot be served. */
  async run(): Promise<void> {
    try {
      const { parts, hooks, noteEnd } = await this.#serve();
      await this.#untilOver();
      // Begun before the agent is told, so before anybody else has the disks; a file system that hangs keeps no end from being told.
      const noted = this.#noteEnd(noteEnd);
      // The agent does not wait for a sidecar that hangs: the guest has ended.
      const told = this.#tellSidecars(hooks);
      await this.#report(parts);
      await told;
      await noted;
      this.#leave();
    } finally {
      await this.#cleanUp();
    }
  }

  /** SIGTERM of the pod. Without a domain that runs the launcher ends at once. */
  terminate(): void {
    this.#life.move(terminationRequested);
    this.#terminating.abort(new LauncherError('STOPPED', 'the pod is to end'));
  }

  async #noteEnd(note: Made['noteEnd']): Promise<void> {
    if (this.#life.phase.kind !== 'reporting') return;
    await note().catch((error: unknown) => {
      this.#log.warn(
        { err: errorMessage(error) },
        'changed blocks are not known any more: the next backup is a full one',
      );
    });
  }

  /** All of them together have less than what a kubelet gives a pod beyond the VM's own grace period, else it would kill this program. */
  async #tellSidecars(hooks: HookSidecars): Promise<void> {
    const late = new AbortController();
    const words = `no answer in ${sidecarsEndMs / 1000} s, and the pod is to end`;
    const cancels: (() => void)[] = [];
    const limit = () =>
      cancels.push(this.#clock.schedule(sidecarsEndMs, () => late.abort(new LauncherError('STOPPED', words))));
    const { signal } = this.#terminating;
    if (signal.aborted) limit();
    else signal.addEventListener('abort', limit, { once: true });
    try {
      await hooks.shutdown(late.signal);
    } finally {
      signal.removeEventListener('abort', limit);
      for (const cancel of cancels) cancel();
    }
  }

  async #serve(): Promise<Omit<Made, 'server'>> {
    const { flags, environment } = this.#settings;
    const standalone = await readStandaloneVmi(environment.standaloneVmi);
    const identity = identityOf(flags, standalone?.metadata);
    const paths = podPaths(
      { ...flags, uid: identity.uid },
      `${identity.namespace}_${identity.name}`,
      this.#settings.root,
    );
    const qemuUser = environment.uid === 0 ? await findQemuUser() : undefined;
    this.#refuseWhatIsMissing();
    if (!flags.runAsNonroot) await requireOwnPod();
    await makePodDirectories(paths, qemuUser);
    const keepLog = this.#serialLogKeeper(paths, qemuUser);
    keepLog();
    if (flags.simulateCrash) throw new LauncherError('SETUP_FAILED', 'crash simulated on request');

    const choice = new HypervisorChoice({ flags, kvm: environment.kvm }, { log: this.#log });
    choice.prepare();
    const libvirt = { flags, environment, paths: paths.libvirt, ...(qemuUser && { qemuUser }) };
    const libvirtDeps = { ...this.#deps, clock: this.#clock, onCleanUp: (one: CleanUp) => this.#cleanUps.push(one) };
    const daemon = await startDaemon(libvirt, libvirtDeps);
    // Most of the program is read while the daemon gets ready.
    const [hypervisor, { makeParts }] = await Promise.all([
      connectLibvirt(daemon, libvirt, libvirtDeps),
      import('./make-parts.ts'),
    ]);
    const { parts, server, hooks, noteEnd } = makeParts(
      { ...this.#settings, identity, paths, qemuUser, hypervisor, choice },
      {
        ...this.#deps,
        clock: this.#clock,
        life: this.#life,
        onTargetPodCleanup: (pod) => this.#targetPodCleanup(pod),
      },
    );
    hypervisor.onEvent((event) => {
      if (event.kind === 'lifecycle') keepLog();
      parts.handleEvent(event);
    });
    await this.#collectHooks(hooks);
    await this.#startServing(paths, server, parts);
    void this.#warmUp(hypervisor, choice);
    if (standalone) await parts.syncVmi(standalone, {});
    return { parts, hooks, noteEnd };
  }

  /** A pod that is to end meanwhile does not wait for them. */
  async #collectHooks(hooks: HookSidecars): Promise<void> {
    const ending = new AbortController();
    void this.#life.over().then(() => ending.abort());
    await hooks.collect(ending.signal).catch((error: unknown) => {
      if (!ending.signal.aborted) throw error;
    });
  }

  #refuseWhatIsMissing(): void {
    const { hypervisor } = this.#settings.flags;
    if (hypervisor !== 'kvm') {
      throw new LauncherError('NOT_SUPPORTED', `hypervisor ${hypervisor} is not supported by this launcher: use kvm`);
    }
  }

  /**
   * What keeps the guest's log from growing, for without virtlogd nobody else does, and readable. It is called again when the domain has
   * changed: the file may be another one then.
   */
  #serialLogKeeper(paths: PodPaths, owner: QemuUser | undefined): () => void {
    const limits = { maxBytes: maxSerialLogBytes, pauseMs: serialLogPauseMs, counts: true };
    const keeper = new LogKeeper(limits, { clock: this.#clock, log: this.#log });
    this.#cleanUps.push({ what: 'serial log', run: () => keeper.forgetAll() });
    const failed = (error: unknown) => this.#log.debug({ err: errorMessage(error) }, 'serial log has no owner yet');
    return () => {
      keeper.keep(serialLogOf(paths));
      if (owner) ownSerialLog(paths, owner).catch(failed);
    };
  }

  async #startServing({ commandSocket }: PodPaths, server: CommandServer, parts: LauncherParts): Promise<void> {
    this.#cleanUps.push({ what: 'command server', run: () => server.stop() });
    await server.start();
    this.#cleanUps.push({ what: 'notifier', run: () => parts.stop() });
    parts.start();
    await server.markReady();
    this.#life.move(serving);
    this.#log.info({ socket: commandSocket }, 'ready');
  }

  /** Finds out what the first define would wait for while no caller waits. */
  async #warmUp(hypervisor: LibvirtHypervisor, choice: HypervisorChoice): Promise<void> {
    try {
      await hypervisor.warmUp(await choice.choose());
    } catch (error) {
      this.#log.debug({ err: errorMessage(error) }, 'libvirt was not warmed up');
    }
  }

  #targetPodCleanup(pod: string): void {
    if (pod !== '' && pod === this.#settings.environment.podName) this.terminate();
  }

  async #untilOver(): Promise<void> {
    const { qemuTimeoutMs } = this.#settings.flags;
    const cancel = this.#clock.schedule(qemuTimeoutMs, () => this.#life.move(noDomainInTime));
    await this.#life.over().finally(cancel);
  }

  async #report({ notifier, power }: LauncherParts): Promise<void> {
    if (this.#life.phase.kind !== 'reporting') return;
    if (this.#settings.environment.standaloneVmi !== undefined) {
      this.#life.move(reported('no-agent'));
      return;
    }
    this.#log.info('QEMU ended');
    notifier.trigger('MODIFIED');
    const result = await awaitFinalNotice(finalNoticeLimits, {
      notifier,
      power,
      isTerminating: () => isTerminating(this.#life.phase),
      log: this.#log,
      clock: this.#clock,
    });
    this.#log.info({ result }, 'leaving');
    this.#life.move(reported(result === 'deleted' ? 'deletion-reported' : 'report-timed-out'));
  }

  #leave(): void {
    const { phase } = this.#life;
    if (phase.kind !== 'left') return;
    switch (phase.reason) {
      case 'terminated-before-start':
        this.#log.info('asked to end before there was a domain');
        return;
      case 'no-domain-in-time': {
        const limit = `${this.#settings.flags.qemuTimeoutMs / 1000} s`;
        throw new LauncherError('NO_DOMAIN_IN_TIME', `no domain was started within ${limit}`);
      }
      case 'no-agent':
      case 'deletion-reported':
      case 'report-timed-out':
        return;
      default:
        phase.reason satisfies never;
    }
  }

  async #cleanUp(): Promise<void> {
    for (const { what, run } of this.#cleanUps.splice(0).reverse()) {
      try {
        await run();
      } catch (error) {
        this.#log.warn({ what, err: errorMessage(error) }, 'not stopped cleanly');
      }
    }
  }
}

function identityOf(flags: LauncherOptions, vmi?: { name?: string; namespace?: string; uid?: string }): VmiIdentity {
  const name = flags.name || vmi?.name || '';
  const uid = flags.uid || vmi?.uid || '';
  const namespace = flags.namespace || vmi?.namespace || 'default';
  if (name === '' || uid === '')
    throw new LauncherError('BAD_FLAG', '--name and --uid must say whose launcher this is');
  if (!/^[A-Za-z0-9][A-Za-z0-9-]*$/.test(uid))
    throw new LauncherError('BAD_FLAG', `--uid ${JSON.stringify(uid)} is no UID`);
  return { name, namespace, uid };
}
