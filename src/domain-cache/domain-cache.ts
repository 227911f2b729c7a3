import { setMaxListeners } from 'node:events';
import path from 'node:path';
import { type Key, makeKey } from '../api/index.ts';
import { type Clock, errorMessage, type Logger, silentLogger, sleep, systemClock } from '../base/index.ts';
import { DomainStore, type DomainView } from './domain-store.ts';
import type { DomainCacheError } from './errors.ts';
import { type GhostRecord, GhostRecords } from './ghost-records.ts';
import { forEachLimited } from './limited.ts';
import type { NotifyDoors } from './notify-doors.ts';
import { ownDomain } from './notify-events.ts';
import { type ChannelLimits, NotifyIntake } from './notify-intake.ts';
import type { PipePlace } from './pipe.ts';
import type { LauncherEvent, LauncherLink, LauncherLinks, LauncherPlace, LauncherProcess } from './ports.ts';
import type { RecordFiles } from './record-files.ts';
import { RecordKeeper } from './record-keeper.ts';
import { SocketDoors } from './socket-doors.ts';
import { TrackedLauncher } from './tracked-launcher.ts';

export interface DomainCacheOptions {
  /** `--kubevirt-share-dir`: holds `domain-notify.sock`. */
  readonly shareDir: string;
  /** `--kubevirt-private-dir`: holds `ghost-records/`. */
  readonly privateDir: string;
  /** `--domain-resync-period-seconds`; 300 s upstream. */
  readonly resyncMs?: number;
  /** Between two looks at launchers without a connection; `--watchdog-timeout` / 3 + 1 = 11 s upstream. */
  readonly watchdogMs?: number;
  /** Launchers that are asked side by side. */
  readonly parallel?: number;
  /** A launcher that is silent for longer gives its place to the next one. */
  readonly placeMs?: number;
  /** Wait before the second question after an unexpected "no domain". */
  readonly recheckMs?: number;
  readonly channelLimits?: ChannelLimits;
  /** Where a launcher's pipe belongs; `/proc/<pid>/root` + `var/run/kubevirt` unless given. */
  readonly pipePlace?: (link: LauncherLink) => PipePlace;
}

export interface DomainCacheDeps {
  readonly links: LauncherLinks;
  /** An event that a launcher wants on its VMI. */
  readonly onLauncherEvent?: (key: Key, uid: string, event: LauncherEvent) => void;
  /** A problem of a VMI that somebody should do something about; undefined when it is over. */
  readonly onProblem?: (key: Key, uid: string, problem: DomainCacheError | undefined) => void;
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly logger?: Logger;
  /** Sockets and files of this machine unless given. */
  readonly doors?: NotifyDoors;
  readonly recordFiles?: RecordFiles;
}

const defaults = {
  resyncMs: 300_000,
  watchdogMs: 11_000,
  parallel: 32,
  placeMs: 500,
  recheckMs: 100,
};
/**
 * The domains of this node, in three values: present, gone (proven), unknown. Fed by launchers' events, by questions at
 * start, after each connection and every five minutes, and by the watch on their connections.
 */
export class DomainCache {
  readonly name = 'domain-cache';
  readonly ghostRecords: GhostRecords;
  readonly #options: DomainCacheOptions & typeof defaults;
  readonly #deps: DomainCacheDeps;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #store: DomainStore;
  readonly #doors: NotifyDoors;
  readonly #launchers = new Map<string, TrackedLauncher>();
  readonly #lingering = new Set<TrackedLauncher>();
  readonly #keeper: RecordKeeper;
  readonly #stopping = new AbortController();
  #synced = false;
  #ends: (() => void)[] = [];

  constructor(options: DomainCacheOptions, deps: DomainCacheDeps) {
    this.#options = { ...defaults, ...options };
    this.#deps = deps;
    // Every question to a launcher listens on it.
    setMaxListeners(0, this.#stopping.signal);
    this.#clock = deps.clock ?? systemClock;
    this.#logger = deps.logger ?? silentLogger;
    this.#store = new DomainStore(this.#clock);
    const logger = this.#logger;
    const directory = path.join(options.privateDir, 'ghost-records');
    this.ghostRecords = new GhostRecords(
      { directory },
      { logger, ...(deps.recordFiles && { files: deps.recordFiles }) },
    );
    this.#keeper = new RecordKeeper(this.ghostRecords, {
      logger,
      onProblem: (key, uid, problem) => {
        deps.onProblem?.(key, uid, problem);
        this.#store.touch(key);
      },
    });
    const { shareDir, pipePlace } = options;
    this.#doors = deps.doors ?? new SocketDoors({ shareDir, pipePlace }, logger);
  }

  /** True once every remembered launcher was asked once. Before, those not asked yet are `unknown`. */
  get synced(): boolean {
    return this.#synced;
  }

  /** Why launchers cannot reach `domain-notify.sock`; undefined: they can. */
  get notifyProblem(): string | undefined {
    return this.#doors.problem;
  }

  /** With `uid`: that VMI's domain only, so that a predecessor of the same name never shows through. */
  view(key: Key, uid?: string): DomainView {
    return this.#store.view(key, uid);
  }

  /** UIDs other than `uid` still known under this key: leftovers of earlier VMIs of the name. */
  otherUids(key: Key, uid: string): string[] {
    return this.#store.otherUids(key, uid);
  }

  keys(): Iterable<Key> {
    return this.#store.keys();
  }

  /** Called with the key after each change of a view or a problem. */
  onChange(listener: (key: Key) => void): () => void {
    return this.#store.onChange(listener);
  }

  /** What the user should know about this VMI: a record that is not saved. */
  problemOf(uid: string): DomainCacheError | undefined {
    return this.#keeper.problemOf(uid);
  }

  /** Reads the ghost records, serves the notify socket, and begins to ask all remembered launchers. */
  async start(): Promise<void> {
    await this.ghostRecords.load();
    await this.#doors.start();
    this.#ends.push(this.#deps.links.onDown((uid) => void this.#check(uid)));
    for (const record of this.ghostRecords.all()) {
      const { place } = this.#launcher(placeOf(record));
      this.#store.unknown(place.key, place.uid, 'not asked yet since the agent started');
    }
    void this.#list();
    this.#every(this.#options.watchdogMs, () => this.#watchdog());
    this.#every(this.#options.resyncMs, () => this.#resync());
  }

  /** The agent leaves: sockets close, records stay, launchers are not touched. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('domain cache stopped'));
    for (const end of this.#ends.splice(0)) end();
    await this.#doors.stop();
    await Promise.all([...this.#launchers.values(), ...this.#lingering].map((launcher) => launcher.detach()));
    await this.#keeper.saveUnsaved();
  }

  /** Hook before a dial: remembers the launcher on disk. A full disk is a problem to show, no reason to lose the VM. */
  async register(place: LauncherPlace, process?: LauncherProcess): Promise<void> {
    this.#launcher(place);
    const known = this.ghostRecords.byUid(place.uid);
    await this.#keeper.add(known?.socketFile === place.socketFile ? known : recordOf(place, process));
  }

  /** Hook after a dial: notify pipe first, then the first question, so that nothing falls between. */
  async attach(link: LauncherLink): Promise<void> {
    const launcher = this.#launcher(link.target);
    launcher.dead = false;
    if (!launcher.intake?.isFor(link.peer)) {
      await this.#endLingering(link.target.uid);
      await launcher.attach(link, this.#createIntake(link, launcher));
      // What was under way when the agent began to leave would keep its process.
      if (this.#stopping.signal.aborted) await launcher.detach();
      await this.#keeper.add(recordOf(link.target, link.peer));
    }
    await this.#ask(link);
  }

  /** Hook at the end of a clean-up: the ghost record goes, the pipe when the launcher has said its last word. */
  async released(key: Key, uid: string): Promise<void> {
    const launcher = this.#launchers.get(uid);
    this.#launchers.delete(uid);
    if (launcher) {
      this.#lingering.add(launcher);
      launcher.linger(() => this.#lingering.delete(launcher));
    }
    await this.#keeper.remove(key, uid);
  }

  /** Drops the picture itself; the last step of a clean-up. */
  forget(key: Key, uid: string): void {
    this.#store.forget(key, uid);
  }

  /** Asks the launcher and stores the answer. Never rejects: a failure becomes `unknown`, or `gone` if it is proven. */
  async refresh(key: Key, uid: string, signal?: AbortSignal): Promise<DomainView> {
    const link = this.#deps.links.peek(uid);
    if (link) await this.#ask(link, signal);
    if (!link?.connected) await this.#check(uid);
    return this.#store.view(key, uid);
  }

  async #list(): Promise<void> {
    const checks: Promise<void>[] = [];
    await this.#forEach([...this.#launchers.keys()], (uid) => {
      const check = this.#check(uid);
      checks.push(check);
      return check;
    });
    await Promise.all(checks);
    this.#synced = true;
    for (const key of new Set(this.#store.keys())) this.#store.touch(key);
  }

  #forEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
    const { parallel: limit, placeMs } = this.#options;
    return forEachLimited(items, { limit, placeMs, clock: this.#clock }, work);
  }

  async #watchdog(): Promise<void> {
    const idle = [...this.#launchers.values()].filter(
      ({ dead, place }) => !dead && !this.#deps.links.peek(place.uid)?.connected,
    );
    await Promise.all([
      this.#doors.ensure().catch((error: unknown) => this.#logger.error({ error }, 'notify socket was not made')),
      this.#keeper.saveUnsaved(),
      this.#forEach(idle, ({ place }) => this.#check(place.uid)),
    ]);
  }

  async #resync(): Promise<void> {
    const links = [...this.#launchers.keys()].flatMap((uid) => this.#deps.links.peek(uid) ?? []);
    await this.#forEach(links, (link) => this.#ask(link));
  }

  /** Finds out about one launcher: dead, alive (then connected and asked), or unknown (then again after a while). */
  #check(uid: string): Promise<void> {
    const launcher = this.#launchers.get(uid);
    if (!launcher || this.#stopping.signal.aborted) return Promise.resolve();
    launcher.checking ??= this.#checkNow(launcher).finally(() => {
      launcher.checking = undefined;
    });
    return launcher.checking;
  }

  async #checkNow(launcher: TrackedLauncher): Promise<void> {
    const { key, uid, socketFile } = launcher.place;
    const { links } = this.#deps;
    const asked = this.#store.ask();
    const process = launcher.intake?.process ?? links.peek(uid)?.peer ?? processOf(this.ghostRecords.byUid(uid));
    const verdict = await links.inspect({ uid, socketFile, process });
    if (this.#launchers.get(uid) !== launcher || this.#stopping.signal.aborted) return;
    if (verdict.kind === 'dead') return this.#died(launcher, verdict.proof);
    if (verdict.kind === 'unknown') return this.#notKnown(launcher, verdict.reason, asked);
    try {
      const wasLinked = links.peek(uid) !== undefined;
      const link = await links.connect({ key, uid, socketFile, activePods: {}, nonRoot: false }, this.#stopping.signal);
      link.reconnect();
      if (wasLinked) await this.#ask(link);
    } catch (error) {
      // Of one that was cleaned up meanwhile nothing is known any more, and nothing is to be known.
      if (this.#launchers.get(uid) === launcher) this.#notKnown(launcher, errorMessage(error), asked);
    }
  }

  async #died(launcher: TrackedLauncher, proof: string): Promise<void> {
    const { key, uid, socketFile } = launcher.place;
    launcher.dead = true;
    launcher.settled();
    this.#logger.info({ vmi: key, uid, proof }, 'launcher ended');
    await launcher.detach();
    this.#deps.links.markUnresponsive(socketFile);
    this.#store.dead(key, uid, proof);
  }

  #notKnown(launcher: TrackedLauncher, reason: string, asked: { seq: number; seenMs: number }): void {
    const { key, uid } = launcher.place;
    this.#store.unknown(key, uid, reason, asked);
    if (!this.#stopping.signal.aborted) launcher.retryLater(() => void this.#check(uid));
  }

  /** One question to a launcher. "No domain" where there was or may be one is asked twice. Never rejects. */
  async #ask(link: LauncherLink, signal: AbortSignal = this.#stopping.signal): Promise<void> {
    const { key, uid } = link.target;
    const launcher = this.#launchers.get(uid);
    if (!launcher) return;
    let asked = this.#store.ask();
    try {
      let domain = await link.getDomain(signal);
      if (!domain && mayHaveDomain(this.#store.view(key, uid))) {
        await sleep(this.#options.recheckMs, signal, this.#clock);
        asked = this.#store.ask();
        domain = await link.getDomain(signal);
      }
      if (this.#launchers.get(uid) !== launcher || launcher.dead) return;
      this.#store.answer(key, uid, domain && ownDomain(domain, link.target), asked);
      launcher.settled();
    } catch (error) {
      if (this.#launchers.get(uid) !== launcher || signal.aborted) return;
      this.#notKnown(launcher, errorMessage(error), asked);
    }
  }

  #createIntake({ target, peer }: LauncherLink, launcher: TrackedLauncher): NotifyIntake {
    const { key, uid } = target;
    const askSoon = () =>
      launcher.runSoon(async () => {
        const link = this.#deps.links.peek(uid);
        if (link) await this.#ask(link);
      });
    return new NotifyIntake({ key, uid }, peer, {
      clock: this.#clock,
      logger: this.#logger,
      ...(this.#options.channelLimits && { limits: this.#options.channelLimits }),
      handlers: {
        domain: (domain) => {
          if (this.#launchers.get(uid) !== launcher || launcher.dead) return;
          launcher.settled();
          if (!this.#store.event(key, uid, domain)) askSoon();
        },
        stale: askSoon,
        kubernetesEvent: (event) => this.#deps.onLauncherEvent?.(key, uid, event),
      },
    });
  }

  /** The pipe of an earlier clean-up may be in the same place, and its end would remove the new one. */
  async #endLingering(uid: string): Promise<void> {
    for (const launcher of this.#lingering) {
      if (launcher.place.uid !== uid) continue;
      this.#lingering.delete(launcher);
      await launcher.detach();
    }
  }

  #launcher(place: LauncherPlace): TrackedLauncher {
    const known = this.#launchers.get(place.uid);
    if (known?.place.socketFile === place.socketFile) return known;
    const launcher = new TrackedLauncher(place, {
      clock: this.#clock,
      random: this.#deps.random ?? Math.random,
      doors: this.#doors,
    });
    void known?.detach();
    this.#launchers.set(place.uid, launcher);
    return launcher;
  }

  /** Runs `work` again and again, `ms` after it ended. `work` must not reject. */
  #every(ms: number, work: () => Promise<void>): void {
    let cancel = () => {};
    const again = () => {
      if (this.#stopping.signal.aborted) return;
      cancel = this.#clock.schedule(ms, () => void work().finally(again));
    };
    again();
    this.#ends.push(() => cancel());
  }
}

/** One that was never heard of is a start: nothing is expected there, and nothing waits. */
function mayHaveDomain({ kind }: DomainView): boolean {
  return kind === 'present' || kind === 'unknown';
}

function placeOf({ namespace, name, uid, socketFile }: GhostRecord): LauncherPlace {
  return { key: makeKey(namespace, name), uid, socketFile };
}

function recordOf({ key, uid, socketFile }: LauncherPlace, process?: LauncherProcess): GhostRecord {
  const at = key.indexOf('/');
  const known = process && { pid: process.pid, startTime: process.startTime };
  return { namespace: key.slice(0, at), name: key.slice(at + 1), socketFile, uid, ...known };
}

function processOf(record: GhostRecord | undefined): { pid: number; startTime: string } | undefined {
  const { pid, startTime } = record ?? {};
  return pid !== undefined && startTime !== undefined ? { pid, startTime } : undefined;
}
