import { type Domain, domainKey, domainUid, type Key, placeholderVmi } from '../../api/index.ts';
import { type Clock, type Component, errorMessage, type Logger, sleep } from '../../base/index.ts';
import { findStrangers, type StrangeLauncher, vmiRequest } from '../../launcher-client/index.ts';
import type { GhostRecord, VmiLookup, VmiStore } from './ports.ts';

export interface OrphanedLaunchersOptions {
  readonly podsDir: string;
}

export interface OrphanedLaunchersDeps {
  readonly vmis: VmiStore;
  readonly lookup: VmiLookup;
  readonly ghosts: { all(): readonly GhostRecord[] };
  readonly clock: Clock;
  readonly log: Logger;
}

/** Between two looks at the VMI's absence, and between two signals to the guest. */
const againMs = 5_000;

/** For a guest whose domain does not know how long it has. */
const defaultGraceSeconds = 30;

/**
 * Guests that run on this node although nobody knows of them: their launcher was started while the agent was away, and their
 * VMI vanished before it came back, so there is neither VMI nor ghost record (upstream leaves them running, spec 21 §6).
 * Looked for once at each start by the launchers' sockets, and ended as any guest whose VMI is gone: asked to shut down,
 * killed when its grace is over. Whose guest it is, is only its own word: nothing is done by that name but to ask the API
 * server whether such a VMI exists, and all calls go through the launcher's own connection.
 */
export class OrphanedLaunchers implements Component {
  readonly name = 'orphaned launchers';
  readonly #options: OrphanedLaunchersOptions;
  readonly #deps: OrphanedLaunchersDeps;
  readonly #stopping = new AbortController();
  #looking: Promise<void> = Promise.resolve();

  constructor(options: OrphanedLaunchersOptions, deps: OrphanedLaunchersDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** The VMIs must have been listed. Nobody waits for the look: a launcher that hangs delays no start. */
  async start(): Promise<void> {
    this.#looking = this.#look();
  }

  /** The agent leaves: guests stay, and are found again at the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the agent leaves'));
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { signal } = this.#stopping;
    const { vmis, ghosts, log } = this.#deps;
    const pods = new Set([...vmis.keys()].flatMap((key) => Object.keys(vmis.get(key)?.status?.activePods ?? {})));
    const remembered = new Set(ghosts.all().map(({ socketFile }) => socketFile));
    const isKnown = (socketFile: string) => remembered.has(socketFile) || pods.has(this.#podOf(socketFile));
    const ends: Promise<void>[] = [];
    for await (const stranger of findStrangers({ podsDir: this.#options.podsDir }, { isKnown, signal, logger: log })) {
      ends.push(this.#meet(stranger));
    }
    await Promise.all(ends);
  }

  #podOf(socketFile: string): string {
    return socketFile.slice(this.#options.podsDir.length).split('/').find(Boolean) ?? '';
  }

  async #meet({ domain, connection }: StrangeLauncher): Promise<void> {
    const [key, uid] = [domainKey(domain), domainUid(domain)];
    const fields = { vmi: key, uid, socketFile: connection.target.socketFile };
    try {
      if (uid === '' || !(await this.#isForgotten(key, uid))) return;
      this.#deps.log.warn(fields, 'a guest runs here whose VMI is no more, and is ended');
      await this.#end(connection, key, uid);
      this.#deps.log.info(fields, 'the forgotten guest has ended');
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#deps.log.warn({ ...fields, reason: errorMessage(error) }, 'a forgotten guest is left as it is');
    } finally {
      connection.close();
    }
  }

  /** Asked twice: a VMI that exists, here or on another node, is somebody's. Asked again until there is an answer. */
  async #isForgotten(key: Key, uid: string): Promise<boolean> {
    for (let misses = 0; misses < 2; ) {
      if (misses > 0) await this.#pause();
      const answer = await this.#deps.lookup.find(key, this.#stopping.signal).then(
        (vmi) => ({ isThere: vmi?.metadata.uid === uid }),
        () => undefined,
      );
      if (answer?.isThere) return false;
      if (answer) misses++;
      else await this.#pause();
    }
    return true;
  }

  /** Rejects when the launcher cannot be reached any more: then the guest ends with it. */
  async #end(connection: StrangeLauncher['connection'], key: Key, uid: string): Promise<void> {
    const { signal } = this.#stopping;
    const request = vmiRequest(placeholderVmi(key, uid));
    let deadlineMs: number | undefined;
    for (let domain = await connection.getDomain(signal); domain; domain = await connection.getDomain(signal)) {
      const nowMs = this.#deps.clock.monotonicMs();
      deadlineMs ??= nowMs + graceMsOf(domain);
      const leftMs = deadlineMs - nowMs;
      const rpc = rpcFor(domain, leftMs);
      await connection.call(rpc, request, signal).catch((error: unknown) => {
        this.#deps.log.warn(
          { vmi: key, uid, rpc, reason: errorMessage(error) },
          'a forgotten guest could not be ended',
        );
      });
      if (rpc === 'deleteVirtualMachine') return;
      await sleep(leftMs > 0 ? Math.min(againMs, leftMs) : againMs, signal, this.#deps.clock);
    }
  }

  #pause(): Promise<void> {
    return sleep(againMs, this.#stopping.signal, this.#deps.clock);
  }
}

function graceMsOf(domain: Domain): number {
  return (domain.Spec.Metadata.KubeVirt.GracePeriod?.DeletionGracePeriodSeconds ?? defaultGraceSeconds) * 1_000;
}

function rpcFor({ Status: { Status: status } }: Domain, leftMs: number) {
  if (status === 'Shutoff' || status === 'Crashed') return 'deleteVirtualMachine';
  return leftMs > 0 ? 'shutdownVirtualMachine' : 'killVirtualMachine';
}
