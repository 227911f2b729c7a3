import type { Domain, VmiEvent } from '../api/index.ts';
import { type Clock, errorCode, errorMessage, type Logger, TokenBucket, type TokenRate } from '../base/index.ts';
import type { Peer } from '../host/index.ts';
import type { notify } from '../wire/index.ts';
import { type ChannelIdentity, readDomainEvent, readKubernetesEvent } from './notify-events.ts';

/** What one launcher may cost this agent. A real one sends a few events a second, for a short time. */
export interface ChannelLimits {
  readonly events: TokenRate;
  readonly eventBytes: TokenRate;
  readonly kubernetesEvents: TokenRate;
  /** A real launcher holds one; one more closes the oldest. */
  readonly connections: number;
  /** Events above the rate until the channel is shut for `penaltyMs`. */
  readonly refusedBeforePenalty: number;
  readonly penaltyMs: number;
  readonly messageBytes: number;
}

export const channelLimits: ChannelLimits = {
  events: { perSecond: 20, burst: 100 },
  eventBytes: { perSecond: 2 * 1024 * 1024, burst: 8 * 1024 * 1024 },
  kubernetesEvents: { perSecond: 0.2, burst: 25 },
  connections: 4,
  refusedBeforePenalty: 500,
  penaltyMs: 10_000,
  messageBytes: 2 * 1024 * 1024,
};

export interface IntakeHandlers {
  domain(domain: Domain): void;
  /** Events were skipped, or say nothing by themselves: the state has to be asked for. */
  stale(): void;
  kubernetesEvent(event: VmiEvent): void;
}

export interface IntakeDeps {
  readonly handlers: IntakeHandlers;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits?: ChannelLimits;
}

/**
 * What is made of the events of exactly one launcher process, whatever carries them. What a message claims about its sender is
 * only compared. Everything a launcher sends costs its own intake: rate and bytes.
 */
export class NotifyIntake {
  readonly identity: ChannelIdentity;
  readonly process: Peer;
  readonly limits: ChannelLimits;
  readonly #deps: IntakeDeps;
  readonly #events: TokenBucket;
  readonly #bytes: TokenBucket;
  readonly #kubernetesEvents: TokenBucket;
  #refused = 0;
  #shutUntilMs = 0;
  #hasEnded = false;

  constructor(identity: ChannelIdentity, process: Peer, deps: IntakeDeps) {
    this.identity = identity;
    this.process = process;
    this.#deps = deps;
    this.limits = deps.limits ?? channelLimits;
    this.#events = new TokenBucket(this.limits.events, deps.clock);
    this.#bytes = new TokenBucket(this.limits.eventBytes, deps.clock);
    this.#kubernetesEvents = new TokenBucket(this.limits.kubernetesEvents, deps.clock);
  }

  /** The launcher has said that its domain is no more. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** It floods: for a while it is not even read from. */
  get isShut(): boolean {
    return this.#deps.clock.monotonicMs() < this.#shutUntilMs;
  }

  /** Whether `peer` is the process that this intake was made for. */
  isFor(peer: { readonly pid: number; readonly startTime: string }): boolean {
    return peer.pid === this.process.pid && peer.startTime === this.process.startTime;
  }

  /** Never throws: a refusal is an answer with success=false, which launchers do not repeat. */
  domainEvent(request: notify.DomainEventRequest): notify.Response {
    return this.#answer(() => this.#onDomainEvent(request));
  }

  /** Never throws. */
  kubernetesEvent(request: notify.K8sEventRequest): notify.Response {
    return this.#answer(() => this.#onKubernetesEvent(request));
  }

  #answer(handle: () => void): notify.Response {
    try {
      handle();
      return { success: true, message: '' };
    } catch (error) {
      const { key, uid } = this.identity;
      const fields = { vmi: key, uid, code: errorCode(error), reason: errorMessage(error).slice(0, 300) };
      this.#deps.logger.warn(fields, 'launcher event refused');
      return { success: false, message: errorMessage(error) };
    }
  }

  #onDomainEvent({ eventType, domainJSON }: notify.DomainEventRequest): void {
    const { handlers } = this.#deps;
    if (!this.#events.tryTake() || !this.#bytes.tryTake(domainJSON.length)) {
      this.#refuse();
      handlers.stale();
      return;
    }
    switch (eventType) {
      case 'ADDED':
      case 'MODIFIED': {
        const domain = readDomainEvent(domainJSON, this.identity);
        this.#hasEnded = domain.ObjectMeta.deletionTimestamp !== undefined;
        handlers.domain(domain);
        return;
      }
      case 'DELETED':
        readDomainEvent(domainJSON, this.identity);
        this.#hasEnded = true;
        handlers.stale();
        return;
      case 'ERROR':
        handlers.stale();
        return;
      default:
        return;
    }
  }

  #onKubernetesEvent({ eventJSON }: notify.K8sEventRequest): void {
    if (!this.#kubernetesEvents.tryTake()) {
      this.#refuse();
      throw new Error('too many events');
    }
    this.#deps.handlers.kubernetesEvent(readKubernetesEvent(eventJSON, this.identity));
  }

  /** Above the rate nothing is parsed; a launcher that goes on for long is shut out. */
  #refuse(): void {
    if (++this.#refused < this.limits.refusedBeforePenalty) return;
    this.#refused = 0;
    const { penaltyMs } = this.limits;
    this.#shutUntilMs = this.#deps.clock.monotonicMs() + penaltyMs;
    const { key, uid } = this.identity;
    this.#deps.logger.warn({ vmi: key, uid, penaltyMs }, 'launcher floods the notify channel');
  }
}
