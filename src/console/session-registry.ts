import type { Socket } from 'node:net';
import { type Clock, withDeadline } from '../base/index.ts';
import { Broadcast } from './broadcast.ts';
import type { SessionEnd } from './close.ts';
import { DeviceSessions } from './device-sessions.ts';
import { OwnConnection } from './own-connection.ts';
import { type ConsolePast, type JoinedPast, joinedPast } from './past.ts';
import type { Session } from './session.ts';
import type { StreamOptions } from './stream-options.ts';
import type { StreamRequest } from './stream-request.ts';

/** For a log on a disk that does not answer no console waits longer. */
const pastTimeoutMs = 2_000;

export type Connect = (stream: StreamRequest) => Promise<Socket>;

export interface SessionRegistryDeps {
  readonly clock: Clock;
  /** A name that was never used before. */
  readonly newId: () => string;
}

/** A guest's device that is connected and waits for its session. One of the two is called, once. */
export interface Prepared {
  readonly isOpen: boolean;
  join(session: Session): void;
  release(): void;
}

/** All broadcasts and connections to guests, found by the VMI's UID. Entries go with their last session. */
export class SessionRegistry {
  readonly #options: StreamOptions;
  readonly #deps: SessionRegistryDeps;
  readonly #broadcasts = new Map<string, Promise<Broadcast>>();
  readonly #openBroadcasts = new Map<string, Broadcast>();
  readonly #vmisOfBroadcasts = new Map<string, Pick<StreamRequest, 'uid' | 'shown'>>();
  readonly #devices = new Map<string, DeviceSessions>();

  constructor(options: StreamOptions, deps: SessionRegistryDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** The VMIs that have a broadcast, with or without a session, by UID. */
  get broadcasts(): ReadonlyMap<string, Pick<StreamRequest, 'uid' | 'shown'>> {
    return this.#vmisOfBroadcasts;
  }

  hasWriter({ kind, uid }: Pick<StreamRequest, 'kind' | 'uid'>): boolean {
    if (kind === 'console') return this.#openBroadcasts.get(uid)?.hasWriter ?? false;
    return this.#devices.get(deviceKey(kind, uid))?.hasWriter ?? false;
  }

  /** Connects to the guest, or finds the broadcast that is there. */
  async prepare(stream: StreamRequest, connect: Connect): Promise<Prepared> {
    if (stream.kind === 'console') return this.#prepareBroadcast(stream, connect);
    const connection = new OwnConnection(stream.kind, await connect(stream));
    return {
      get isOpen() {
        return connection.isOpen;
      },
      join: (session) => this.#devicesOf(stream).join(session, connection, stream.access),
      release: () => connection.close(),
    };
  }

  /** Ends what there is of a VMI. */
  end(uid: string, end: SessionEnd): void {
    this.#openBroadcasts.get(uid)?.close(end);
    for (const kind of ['vnc', 'usbredir'] as const) this.#devices.get(deviceKey(kind, uid))?.close(end);
  }

  endAll(end: SessionEnd): void {
    for (const broadcast of this.#openBroadcasts.values()) broadcast.close(end);
    for (const devices of this.#devices.values()) devices.close(end);
  }

  async #prepareBroadcast(stream: StreamRequest, connect: Connect): Promise<Prepared> {
    const broadcast = await (this.#broadcasts.get(stream.uid) ?? this.#openBroadcast(stream, connect));
    broadcast.hold();
    return {
      get isOpen() {
        return broadcast.isOpen;
      },
      join: (session) => {
        broadcast.join(session, stream.access, stream.resume);
        broadcast.release();
      },
      release: () => broadcast.release(),
    };
  }

  /** Requests that come while it opens wait for the same broadcast. */
  #openBroadcast(stream: StreamRequest, connect: Connect): Promise<Broadcast> {
    const { uid, shown } = stream;
    const opened = ({ guest, past }: Connected) => {
      const options = { ...this.#options, id: past?.line ?? this.#deps.newId() };
      const broadcast = new Broadcast(options, {
        guest,
        past,
        clock: this.#deps.clock,
        onClosed: () => this.#forgetBroadcast(uid),
      });
      this.#openBroadcasts.set(uid, broadcast);
      this.#vmisOfBroadcasts.set(uid, { uid, shown });
      return broadcast;
    };
    const failed = (error: unknown) => {
      this.#broadcasts.delete(uid);
      throw error;
    };
    const opening = connectWithPast(stream, connect, this.#deps.clock).then(opened, failed);
    this.#broadcasts.set(uid, opening);
    return opening;
  }

  #forgetBroadcast(uid: string): void {
    this.#broadcasts.delete(uid);
    this.#openBroadcasts.delete(uid);
    this.#vmisOfBroadcasts.delete(uid);
  }

  #devicesOf({ kind, uid }: StreamRequest): DeviceSessions {
    const key = deviceKey(kind, uid);
    const known = this.#devices.get(key);
    if (known) return known;
    const devices = new DeviceSessions(this.#deps.newId(), () => this.#devices.delete(key));
    this.#devices.set(key, devices);
    return devices;
  }
}

interface Connected {
  readonly guest: Socket;
  readonly past: JoinedPast | undefined;
}

/** A log that cannot be read takes no console from anybody. */
async function connectWithPast(stream: StreamRequest, connect: Connect, clock: Clock): Promise<Connected> {
  const limits = { timeoutMs: pastTimeoutMs, signal: new AbortController().signal, clock };
  const reading = (past: () => Promise<ConsolePast | undefined>) =>
    withDeadline(limits, (signal) => Promise.race([past(), givenUp(signal)])).catch(() => undefined);
  const read = async () => stream.past && reading(stream.past);
  const before = await read();
  const guest = await connect(stream);
  return { guest, past: joinedPast(before, await read(), read) };
}

function givenUp(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
}

function deviceKey(kind: StreamRequest['kind'], uid: string): string {
  return `${kind}/${uid}`;
}
