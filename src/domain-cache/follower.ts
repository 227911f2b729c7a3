import type { LauncherAddress, VmiEvent } from '../api/index.ts';
import { type Clock, errorMessage, type Logger, sleep, unreachable } from '../base/index.ts';
import type { Peer } from '../host/index.ts';
import { addressOf, type LauncherClients, type OpenConnection } from '../launcher-client/index.ts';
import type { Asked, DomainStore } from './domain-store.ts';
import { ownDomain } from './notify-events.ts';
import { type ChannelLimits, NotifyIntake } from './notify-intake.ts';
import type { FoundLauncher, NotifyListener, NotifyListeners } from './notify-listeners.ts';
import { QuestionTimers } from './question-timers.ts';
import { type RecordKeeper, recordOf, rememberedAddress } from './record-keeper.ts';

/** What the cache needs of the launcher clients. */
export type Launchers = Pick<
  LauncherClients,
  'subscribe' | 'connect' | 'peek' | 'inspect' | 'listenerOf' | 'markUnresponsive'
>;

export interface FollowerOptions {
  /** Wait before the second question after an unexpected "no domain". */
  readonly recheckMs: number;
  readonly channelLimits?: ChannelLimits;
}

export interface FollowerDeps {
  readonly launchers: Launchers;
  readonly store: DomainStore;
  readonly records: RecordKeeper;
  readonly listeners: NotifyListeners;
  readonly onEvent: (event: VmiEvent) => void;
  /** The agent leaves: nothing more is asked. */
  readonly stopping: AbortSignal;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

/** Where one launcher's events come in. */
interface Channel {
  readonly intake: NotifyIntake;
  readonly listener: NotifyListener;
}

type FollowerState =
  /** Known by its ghost record, and not connected to by this process. */
  | { readonly kind: 'remembered' }
  /** It was connected to: its events are heard. */
  | { readonly kind: 'listening'; readonly channel: Channel }
  /** Proven to have ended: it is not looked at any more. */
  | { readonly kind: 'dead' }
  /** Its VMI was cleaned up, or another launcher took its place; the channel stays for its last event. */
  | { readonly kind: 'released'; readonly channel: Channel | undefined };

/** Upstream's launcher waits 15 s for its last event (`waitForFinalNotify` in `virt-launcher.go`). */
const lingerMs = 20_000;
const lingerCheckMs = 200;

/** Follows one launcher: its notify channel, questions about its domain, and what is known of its end. */
export class LauncherFollower {
  readonly address: LauncherAddress;
  readonly #options: FollowerOptions;
  readonly #deps: FollowerDeps;
  readonly #timers: QuestionTimers;
  #state: FollowerState = { kind: 'remembered' };
  #checking: Promise<void> | undefined;
  /** By `hearRemembered`, right before the first check. */
  #wasSeen = false;
  /** A pipe that is made in the place of another would be removed with that one: one at a time. */
  #listening: Promise<void> = Promise.resolve();

  constructor(address: LauncherAddress, options: FollowerOptions, deps: FollowerDeps) {
    this.address = address;
    this.#options = options;
    this.#deps = deps;
    this.#timers = new QuestionTimers(deps);
  }

  get isDead(): boolean {
    return this.#state.kind === 'dead';
  }

  /** Notify channel first, then the first question, so that nothing falls between. Rejects with PIPE_FAILED or RECORD_INVALID. */
  async attach(connection: OpenConnection): Promise<void> {
    await this.#hear(connection);
    await this.ask(connection);
  }

  /**
   * After a start: the very process that is remembered can report again, long before all the others have been dialled and asked, which
   * costs ten times as much. What is in its way is told by `check`. Never rejects.
   */
  async hearRemembered(): Promise<void> {
    const { launchers, records, stopping, logger } = this.#deps;
    const { key, uid } = this.address;
    const record = records.byUid(uid);
    const remembered = record && rememberedAddress(record).process;
    if (!remembered) return;
    try {
      const peer = await launchers.listenerOf(this.address);
      const isSame = peer?.pid === remembered.pid && peer.startTime === remembered.startTime;
      if (!isSame || this.#state.kind !== 'remembered' || stopping.aborted) return;
      this.#wasSeen = true;
      await this.#hear({ address: this.address, peer });
    } catch (error) {
      logger.debug({ vmi: key, uid, reason: errorMessage(error) }, 'a remembered launcher cannot report yet');
    }
  }

  /** One question to the launcher. "No domain" where there was or may be one is asked twice. Never rejects. */
  async ask(connection: OpenConnection, signal: AbortSignal = this.#deps.stopping): Promise<void> {
    const { store } = this.#deps;
    const { key, uid } = this.address;
    let asked = store.ask();
    try {
      let domain = await connection.getDomain(signal);
      if (!domain && this.#mayHaveDomain()) {
        await sleep(this.#options.recheckMs, signal, this.#deps.clock);
        asked = store.ask();
        domain = await connection.getDomain(signal);
      }
      if (this.#isOver) return;
      store.answer(key, uid, domain && ownDomain(domain, this.address), asked);
      this.#timers.settled();
    } catch (error) {
      if (this.#isOver || signal.aborted) return;
      this.#notKnown(errorMessage(error), asked);
    }
  }

  /** Finds out about the launcher: dead, alive (then connected and asked), or unknown (then again after a while). Never rejects. */
  check(): Promise<void> {
    if (this.#state.kind === 'released' || this.#deps.stopping.aborted) return Promise.resolve();
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  /**
   * The end of a clean-up. The channel stays: a launcher does not exit before its last event was taken, else for 45 s. `done`
   * is called when it is closed by itself.
   */
  release(done: () => void): void {
    this.#timers.cancel();
    const channel = this.#channel;
    this.#state = { kind: 'released', channel };
    this.#linger(channel, done);
  }

  /** Closes the channel and forgets the questions to come. The follower is not used any more. */
  async end(): Promise<void> {
    const channel = this.#channel;
    this.#state = { kind: 'released', channel: undefined };
    this.#timers.cancel();
    await channel?.listener.close();
  }

  get #channel(): Channel | undefined {
    const state = this.#state;
    switch (state.kind) {
      case 'listening':
      case 'released':
        return state.channel;
      case 'remembered':
      case 'dead':
        return undefined;
      default:
        return unreachable(state);
    }
  }

  /** What the launcher says does not count any more. */
  get #isOver(): boolean {
    return this.#state.kind === 'dead' || this.#state.kind === 'released';
  }

  #hears(peer: Peer): boolean {
    return this.#state.kind === 'listening' && this.#state.channel.intake.isFor(peer);
  }

  #hear(launcher: FoundLauncher): Promise<void> {
    const hearing = this.#listening.then(async () => {
      if (!this.#hears(launcher.peer) && !this.#isReleased()) await this.#listen(launcher);
    });
    this.#listening = hearing.catch(() => undefined);
    return hearing;
  }

  // remembered | listening to another process | dead → listening
  async #listen(launcher: FoundLauncher): Promise<void> {
    await this.#leaveFor({ kind: 'remembered' });
    const intake = this.#newIntake(launcher.peer);
    const listener = await this.#deps.listeners.open(launcher, intake);
    if (this.#isReleased()) return listener.close();
    // What was under way when the agent began to leave would keep its process.
    if (this.#deps.stopping.aborted) await listener.close();
    else this.#state = { kind: 'listening', channel: { intake, listener } };
    await this.#deps.records.add(recordOf(addressOf(launcher)));
  }

  // listening | dead → another state, without its channel
  async #leaveFor(next: FollowerState): Promise<void> {
    const channel = this.#channel;
    this.#state = next;
    this.#timers.cancel();
    await channel?.listener.close();
  }

  async #check(): Promise<void> {
    const { launchers, store, records, stopping } = this.#deps;
    const { uid } = this.address;
    const asked = store.ask();
    if (await this.#reconnectSeen()) return;
    const record = records.byUid(uid);
    const remembered = record && rememberedAddress(record).process;
    const process = this.#channel?.intake.process ?? launchers.peek(uid)?.peer ?? remembered;
    const liveness = await launchers.inspect({ ...this.address, process });
    if (this.#state.kind === 'released' || stopping.aborted) return;
    if (liveness.kind === 'dead') return this.#died(liveness.proof);
    if (liveness.kind === 'unknown') return this.#notKnown(liveness.reason, asked);
    try {
      await this.#reconnect();
    } catch (error) {
      // Of one that was cleaned up meanwhile nothing is known any more, and nothing is to be known.
      if (!this.#isReleased()) this.#notKnown(errorMessage(error), asked);
    }
  }

  /** The first time after it was seen to listen: false when it has to be looked at once more. */
  async #reconnectSeen(): Promise<boolean> {
    const wasSeen = this.#wasSeen;
    this.#wasSeen = false;
    return (
      wasSeen &&
      this.#reconnect().then(
        () => true,
        () => false,
      )
    );
  }

  async #reconnect(): Promise<void> {
    const { launchers, stopping } = this.#deps;
    const { key, uid, socketFile } = this.address;
    const wasConnected = launchers.peek(uid) !== undefined;
    const target = { key, uid, socketFile, activePods: {} };
    const connection = await launchers.connect(target, stopping);
    connection.reconnect();
    if (wasConnected) await this.ask(connection);
  }

  async #died(proof: string): Promise<void> {
    const { launchers, store, logger } = this.#deps;
    const { key, uid, socketFile } = this.address;
    logger.info({ vmi: key, uid, proof }, 'launcher ended');
    this.#timers.settled();
    await this.#leaveFor({ kind: 'dead' });
    launchers.markUnresponsive(socketFile);
    store.dead(key, uid);
  }

  #notKnown(reason: string, asked: Asked): void {
    const { store, stopping } = this.#deps;
    const { key, uid } = this.address;
    store.unknown(key, uid, reason, asked);
    if (!stopping.aborted) this.#timers.retryLater(() => void this.check());
  }

  #newIntake(process: Peer): NotifyIntake {
    const { launchers, store, onEvent, clock, logger } = this.#deps;
    const { channelLimits } = this.#options;
    const { key, uid } = this.address;
    const askSoon = () =>
      this.#timers.runSoon(async () => {
        const connection = launchers.peek(uid);
        if (connection) await this.ask(connection);
      });
    return new NotifyIntake({ key, uid }, process, {
      clock,
      logger,
      ...(channelLimits && { limits: channelLimits }),
      handlers: {
        domain: (domain) => {
          if (this.#isOver) return;
          this.#timers.settled();
          if (!store.event(key, uid, domain)) askSoon();
        },
        stale: askSoon,
        kubernetesEvent: onEvent,
      },
    });
  }

  #linger(channel: Channel | undefined, done: () => void): void {
    const { clock, listeners } = this.#deps;
    const endMs = clock.monotonicMs() + lingerMs;
    const check = () => {
      const intake = channel?.intake;
      const isOver = !intake || intake.hasEnded || clock.monotonicMs() >= endMs || !listeners.isAlive(intake.process);
      if (isOver) void this.end().finally(done);
      else this.#timers.after(lingerCheckMs, check);
    };
    // Not at once: the answer to the last event may be on its way.
    this.#timers.after(lingerCheckMs, check);
  }

  #isReleased(): boolean {
    return this.#state.kind === 'released';
  }

  /** One that was never heard of is a start: nothing is expected there, and nothing waits. */
  #mayHaveDomain(): boolean {
    const { kind } = this.#deps.store.view(this.address.key, this.address.uid);
    return kind === 'present' || kind === 'unknown';
  }
}
