import type { SubscribeOptions } from './calls/libvirt-calls.ts';
import type { DomainRef } from './domain.ts';
import {
  decodeEvent,
  type EventCallback,
  type EventKind,
  eventKindOf,
  eventTypes,
  type LibvirtEvent,
} from './events.ts';
import type { Packet } from './frame.ts';
import { Program } from './procedures.ts';

export interface EventRouterDeps {
  /** Registers with the daemon; gives its callback id. */
  readonly register: (event: number, domain: DomainRef | undefined, options: SubscribeOptions) => Promise<number>;
  readonly deregister: (callbackId: number) => Promise<void>;
  /** A subscriber threw. */
  readonly onCallbackError: (kind: EventKind, error: unknown) => void;
  /** A message that could not be read, or that has no listener. */
  readonly onIgnored: (reason: string, packet: Packet) => void;
}

type AnyCallback = (event: LibvirtEvent) => void;

interface Registration {
  readonly callbackId: number;
  readonly callbacks: Set<AnyCallback>;
}

interface ReceivedEvent {
  readonly callbackId: number;
  readonly event: LibvirtEvent;
}

/** Bound of events kept for a registration whose reply is still under way. */
const maxEarlyEvents = 4096;

/**
 * One registration with the daemon per event kind and domain (a second one is refused there), many subscribers on it.
 * An event may come before the reply of its own registration: those of unknown ids are kept while one is under way.
 */
export class EventRouter {
  readonly #deps: EventRouterDeps;
  readonly #byKey = new Map<string, Registration>();
  readonly #byId = new Map<number, Registration>();
  #early: ReceivedEvent[] = [];
  /** Registrations run one after the other: two calls may swap inside the daemon (docs/kbase/internals/rpc.rst of libvirt). */
  #chain: Promise<unknown> = Promise.resolve();
  #registering = false;

  constructor(deps: EventRouterDeps) {
    this.#deps = deps;
  }

  async subscribe<Kind extends EventKind>(
    kind: Kind,
    callback: EventCallback<Kind>,
    options: SubscribeOptions,
  ): Promise<() => Promise<void>> {
    const key = `${kind}/${options.domain?.uuid ?? ''}`;
    // A wrapper, so that one function may be subscribed twice. Only events of `kind` reach it.
    const deliver: AnyCallback = (event) => callback(event as LibvirtEvent<Kind>);
    await this.#serially(() => this.#add(key, kind, deliver, options));
    return () => this.#serially(() => this.#remove(key, deliver));
  }

  /** An event message of the daemon. */
  receive(packet: Packet): void {
    const message = this.#decode(packet);
    if (!message) return;
    const registration = this.#byId.get(message.callbackId);
    if (registration) this.#deliver(registration, message.event);
    else if (this.#registering && this.#early.length < maxEarlyEvents) this.#early.push(message);
    else this.#deps.onIgnored('event without subscriber', packet);
  }

  #decode(packet: Packet): ReceivedEvent | undefined {
    const kind = packet.program === Program.REMOTE ? eventKindOf(packet.procedure) : undefined;
    if (!kind) {
      this.#deps.onIgnored('unknown event', packet);
      return undefined;
    }
    try {
      return decodeEvent(kind, packet.payload);
    } catch {
      this.#deps.onIgnored('unreadable event', packet);
      return undefined;
    }
  }

  #serially<T>(task: () => Promise<T>): Promise<T> {
    const run = this.#chain.then(task);
    this.#chain = run.catch(() => undefined);
    return run;
  }

  async #add(key: string, kind: EventKind, deliver: AnyCallback, options: SubscribeOptions): Promise<void> {
    const known = this.#byKey.get(key);
    if (known) {
      known.callbacks.add(deliver);
      return;
    }
    this.#registering = true;
    try {
      const callbackId = await this.#deps.register(eventTypes[kind].id, options.domain, options);
      const registration = { callbackId, callbacks: new Set([deliver]) };
      this.#byKey.set(key, registration);
      this.#byId.set(callbackId, registration);
      for (const early of this.#early) if (early.callbackId === callbackId) this.#deliver(registration, early.event);
    } finally {
      this.#registering = false;
      this.#early = [];
    }
  }

  async #remove(key: string, deliver: AnyCallback): Promise<void> {
    const registration = this.#byKey.get(key);
    if (!registration?.callbacks.delete(deliver) || registration.callbacks.size > 0) return;
    this.#byKey.delete(key);
    this.#byId.delete(registration.callbackId);
    await this.#deps.deregister(registration.callbackId);
  }

  #deliver(registration: Registration, event: LibvirtEvent): void {
    for (const callback of [...registration.callbacks]) {
      try {
        callback(event);
      } catch (error) {
        this.#deps.onCallbackError(event.kind, error);
      }
    }
  }
}
