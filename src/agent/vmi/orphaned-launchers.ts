import { type Domain, domainKey, domainUid, type GhostRecord, type Key, placeholderVmi } from '../../api/index.ts';
import { type Clock, type Component, errorMessage, type Logger, sleep } from '../../base/index.ts';
import { findOrphanedLaunchers, type OrphanedLauncher, vmiRequest } from '../../launcher-client/index.ts';
import type { VmiLookup, VmiStore } from './ports.ts';

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

/** Between two questions whether the VMI is absent, and between two signals to the guest. */
const againMs = 5_000;

/** For a domain that carries no grace period. */
const defaultGraceSeconds = 30;

/**
 * Launchers with a domain on this node that have neither VMI nor ghost record: they were started while the agent was away, and
 * their VMI vanished before it came back (upstream leaves them running). Looked for once at each start by the launchers'
 * sockets, and ended as any domain whose VMI is gone: asked to shut down, killed when its grace is over. Which VMI it belongs
 * to is only its own claim: nothing is done by that name but to ask the API server whether such a VMI exists, and all calls go
 * through the launcher's own connection.
 */
export class OrphanedLaunchers implements Component {
  readonly name = 'orphaned launchers';
  readonly #options: OrphanedLaunchersOptions;
  readonly #deps: OrphanedLaunchersDeps;
  readonly #stopping = new AbortController();
  #searching: Promise<void> = Promise.resolve();

  constructor(options: OrphanedLaunchersOptions, deps: OrphanedLaunchersDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** The VMIs must have been listed. The search is not waited for: a launcher that hangs delays no start. */
  async start(): Promise<void> {
    this.#searching = this.#search();
  }

  /** The agent leaves: launchers stay, and are found again at the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the agent leaves'));
    await this.#searching;
  }

  async #search(): Promise<void> {
    const { signal } = this.#stopping;
    const { vmis, ghosts, log } = this.#deps;
    const pods = new Set([...vmis.keys()].flatMap((key) => Object.keys(vmis.get(key)?.status?.activePods ?? {})));
    const remembered = new Set(ghosts.all().map(({ socketFile }) => socketFile));
    const isKnown = (socketFile: string) => remembered.has(socketFile) || pods.has(this.#podOf(socketFile));
    const ends: Promise<void>[] = [];
    const { podsDir } = this.#options;
    for await (const launcher of findOrphanedLaunchers({ podsDir }, { isKnown, signal, logger: log })) {
      ends.push(this.#endIfOrphaned(launcher));
    }
    await Promise.all(ends);
  }

  #podOf(socketFile: string): string {
    return socketFile.slice(this.#options.podsDir.length).split('/').find(Boolean) ?? '';
  }

  async #endIfOrphaned({ domain, connection }: OrphanedLauncher): Promise<void> {
    const [key, uid] = [domainKey(domain), domainUid(domain)];
    const fields = { vmi: key, uid, socketFile: connection.address.socketFile };
    try {
      if (uid === '' || !(await this.#isOrphaned(key, uid))) return;
      this.#deps.log.warn(fields, 'an orphaned launcher runs here: its VMI is no more, and its domain is ended');
      await this.#end(connection, key, uid);
      this.#deps.log.info(fields, 'the domain of the orphaned launcher has ended');
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#deps.log.warn({ ...fields, reason: errorMessage(error) }, 'an orphaned launcher is left as it is');
    } finally {
      connection.close();
    }
  }

  /** Asked twice: a VMI that exists, here or on another node, has a loop that serves it. Asked again until there is an answer. */
  async #isOrphaned(key: Key, uid: string): Promise<boolean> {
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

  /** Rejects when the launcher cannot be reached any more: then the domain ends with it. */
  async #end(connection: OrphanedLauncher['connection'], key: Key, uid: string): Promise<void> {
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
          'the domain of an orphaned launcher could not be ended',
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
