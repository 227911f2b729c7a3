import type { Domain } from '../../api/index.ts';
import { type Clock, errorMessage, Listeners, type Logger, systemClock } from '../../base/index.ts';
import type { LauncherEvent } from '../ports.ts';

export type DomainEventType = 'ADDED' | 'MODIFIED';

/** The way to the agent. Rejects when the agent cannot be reached; resolves with what it answered. */
export interface NotifySender {
  sendDomain(domain: Domain, type: DomainEventType): Promise<NotifyReply>;
  sendEvent(event: LauncherEvent): Promise<NotifyReply>;
}

export interface NotifyReply {
  readonly success: boolean;
  readonly message: string;
}

export interface NotifierOptions {
  /** Between tries while the agent is away. */
  readonly retryMs: number;
  /** Kubernetes events that wait for the agent; older ones are dropped. */
  readonly maxEvents: number;
}

export interface NotifierDeps {
  /** The domain as it is now. */
  readonly read: () => Promise<Domain>;
  readonly sender: NotifySender;
  readonly log: Logger;
  readonly clock?: Clock;
}

/**
 * Notifies the agent of the domain: always the latest state, in order, for as long as it takes. Upstream's launcher drops an
 * event after 20 s without an agent; here a trigger only marks the sent state as out of date, the state is read when it can be
 * sent, and the last one is never lost.
 */
export class DomainNotifier {
  readonly #options: NotifierOptions;
  readonly #deps: NotifierDeps;
  readonly #clock: Clock;
  readonly #events: LauncherEvent[] = [];
  #pending: DomainEventType | undefined;
  #wake: (() => void) | undefined;
  #running: Promise<void> | undefined;
  #stopped = false;
  #delivered: Domain | undefined;
  #failures = 0;
  readonly #watchers = new Listeners<[domain: Domain]>();

  constructor(options: NotifierOptions, deps: NotifierDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
  }

  /** The last state that the agent has acknowledged. */
  get delivered(): Domain | undefined {
    return this.#delivered;
  }

  /** True while something is still to be sent. */
  get isBehind(): boolean {
    return this.#pending !== undefined || this.#events.length > 0;
  }

  /** How many tries in a row have failed; 0 while the agent is there. */
  get failures(): number {
    return this.#failures;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#wake?.();
    await this.#running;
  }

  /** The domain has changed. ADDED sticks until it was sent. */
  trigger(type: DomainEventType = 'MODIFIED'): void {
    if (this.#pending !== 'ADDED') this.#pending = type;
    this.#wake?.();
  }

  /** The agent is (back) at the pipe: what waits goes out now. */
  agentAppeared(): void {
    if (this.#delivered) this.trigger();
    else this.#wake?.();
  }

  sendEvent(event: LauncherEvent): void {
    this.#events.push(event);
    if (this.#events.length > this.#options.maxEvents) {
      const dropped = this.#events.shift();
      this.#deps.log.warn({ reason: dropped?.reason }, 'Kubernetes event dropped: the agent is away');
    }
    this.#wake?.();
  }

  /** Calls back for each acknowledged state. */
  onDelivered(watcher: (domain: Domain) => void): () => void {
    return this.#watchers.add(watcher);
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      if (!this.isBehind) {
        await this.#sleep();
        continue;
      }
      const worked = await this.#sendNext();
      this.#failures = worked ? 0 : this.#failures + 1;
      if (!worked && !this.#stopped) await this.#sleep(this.#options.retryMs);
    }
  }

  /** False when it has to be tried again later. */
  async #sendNext(): Promise<boolean> {
    try {
      const event = this.#events[0];
      if (event) await this.#sendOneEvent(event);
      else await this.#sendDomain();
      return true;
    } catch (error) {
      const level = this.#failures === 0 ? 'info' : 'debug';
      this.#deps.log[level]({ err: errorMessage(error) }, 'domain state cannot be sent yet');
      return false;
    }
  }

  async #sendOneEvent(event: LauncherEvent): Promise<void> {
    const { success, message } = await this.#deps.sender.sendEvent(event);
    if (!success) this.#deps.log.warn({ reason: event.reason, answer: message }, 'agent refused a Kubernetes event');
    const at = this.#events.indexOf(event);
    if (at >= 0) this.#events.splice(at, 1);
  }

  async #sendDomain(): Promise<void> {
    const type = this.#pending ?? 'MODIFIED';
    this.#pending = undefined;
    try {
      const domain = await this.#deps.read();
      const { success, message } = await this.#deps.sender.sendDomain(domain, type);
      if (success) this.#acknowledged(domain);
      else this.#deps.log.warn({ answer: message }, 'agent refused a domain event');
    } catch (error) {
      // What came meanwhile was newer, but an ADDED that was not sent stays one.
      if (this.#pending === undefined || type === 'ADDED') this.#pending = type;
      throw error;
    }
  }

  #acknowledged(domain: Domain): void {
    this.#delivered = domain;
    const { Status, Reason } = domain.Status;
    this.#deps.log.debug({ status: Status, reason: Reason }, 'domain state sent');
    this.#watchers.notify(domain);
  }

  /** Until woken, at most `ms`. */
  #sleep(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = ms === undefined ? undefined : this.#clock.schedule(ms, () => this.#wake?.());
      this.#wake = () => {
        cancel?.();
        this.#wake = undefined;
        resolve();
      };
      if (this.#stopped) this.#wake();
    });
  }
}
