import type { Socket } from 'node:net';
import type { Clock } from '../base/index.ts';
import type { SessionEnd } from './close.ts';
import { ConsoleLine } from './console-line.ts';
import { DeviceSessions } from './device-sessions.ts';
import { OwnConnection } from './own-connection.ts';
import type { Session } from './session.ts';
import type { StreamOptions } from './stream-options.ts';
import type { StreamRequest } from './stream-request.ts';

export type Connect = (stream: StreamRequest) => Promise<Socket>;

export interface StageDeps {
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

/** All lines and connections to guests, found by the VMI's UID. Entries go with their last session. */
export class Stage {
  readonly #options: StreamOptions;
  readonly #deps: StageDeps;
  readonly #lines = new Map<string, Promise<ConsoleLine>>();
  readonly #openLines = new Map<string, ConsoleLine>();
  readonly #lineOwners = new Map<string, Pick<StreamRequest, 'uid' | 'shown'>>();
  readonly #devices = new Map<string, DeviceSessions>();

  constructor(options: StreamOptions, deps: StageDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** Who has a line, with or without a session, by UID. */
  get lines(): ReadonlyMap<string, Pick<StreamRequest, 'uid' | 'shown'>> {
    return this.#lineOwners;
  }

  hasWriter({ kind, uid }: Pick<StreamRequest, 'kind' | 'uid'>): boolean {
    if (kind === 'console') return this.#openLines.get(uid)?.hasWriter ?? false;
    return this.#devices.get(deviceKey(kind, uid))?.hasWriter ?? false;
  }

  /** Connects to the guest, or finds the line that is. */
  async prepare(stream: StreamRequest, connect: Connect): Promise<Prepared> {
    if (stream.kind === 'console') return this.#prepareLine(stream, connect);
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
    this.#openLines.get(uid)?.close(end);
    for (const kind of ['vnc', 'usbredir'] as const) this.#devices.get(deviceKey(kind, uid))?.close(end);
  }

  endAll(end: SessionEnd): void {
    for (const line of this.#openLines.values()) line.close(end);
    for (const devices of this.#devices.values()) devices.close(end);
  }

  async #prepareLine(stream: StreamRequest, connect: Connect): Promise<Prepared> {
    const line = await (this.#lines.get(stream.uid) ?? this.#openLine(stream, connect));
    line.hold();
    return {
      get isOpen() {
        return line.isOpen;
      },
      join: (session) => {
        line.join(session, stream.access, stream.resume);
        line.release();
      },
      release: () => line.release(),
    };
  }

  /** Those who come while it opens wait for the same line. */
  #openLine(stream: StreamRequest, connect: Connect): Promise<ConsoleLine> {
    const { uid, shown } = stream;
    const opened = (guest: Socket) => {
      const options = { ...this.#options, id: this.#deps.newId() };
      const line = new ConsoleLine(options, { guest, clock: this.#deps.clock, onClosed: () => this.#forgetLine(uid) });
      this.#openLines.set(uid, line);
      this.#lineOwners.set(uid, { uid, shown });
      return line;
    };
    const failed = (error: unknown) => {
      this.#lines.delete(uid);
      throw error;
    };
    const opening = connect(stream).then(opened, failed);
    this.#lines.set(uid, opening);
    return opening;
  }

  #forgetLine(uid: string): void {
    this.#lines.delete(uid);
    this.#openLines.delete(uid);
    this.#lineOwners.delete(uid);
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

function deviceKey(kind: StreamRequest['kind'], uid: string): string {
  return `${kind}/${uid}`;
}
