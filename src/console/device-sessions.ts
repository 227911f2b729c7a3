import { type SessionEnd, sessionEnd } from './close.ts';
import type { OwnConnection } from './own-connection.ts';
import { RfbClientStream } from './rfb-client-stream.ts';
import type { Session } from './session.ts';
import type { Access } from './stream-request.ts';

interface Place {
  readonly session: Session;
  readonly connection: OwnConnection;
}

/**
 * The sessions of one VMI's screen, each with its own connection, one of them the writer; or those of its USB redirection,
 * which have nothing to do with each other.
 */
export class DeviceSessions {
  readonly #id: string;
  readonly #onEmpty: () => void;
  readonly #places = new Set<Place>();
  #writer: Place | undefined;

  /** `onEmpty` may be called more than once. */
  constructor(id: string, onEmpty: () => void) {
    this.#id = id;
    this.#onEmpty = onEmpty;
  }

  get hasWriter(): boolean {
    return this.#writer !== undefined;
  }

  get isEmpty(): boolean {
    return this.#places.size === 0;
  }

  join(session: Session, connection: OwnConnection, access: Access): void {
    const place = { session, connection };
    const isViewer = connection.kind === 'vnc' && access === 'view';
    const client =
      connection.kind === 'vnc'
        ? new RfbClientStream({ isViewer, staysWriter: !session.isAware && !isViewer })
        : undefined;
    session.role = isViewer ? 'viewer' : 'writer';
    this.#places.add(place);
    connection.bind(session, client);
    if (connection.kind === 'vnc' && !isViewer && !session.hasEnded) this.#seatWriter(place);
    session.join({
      started: () => this.#start(place),
      input: (pieces) => connection.input(pieces),
      command: () => this.#take(place),
      drained: () => connection.drained(),
      left: () => this.#leave(place),
    });
  }

  close(end: SessionEnd): void {
    for (const { session } of this.#places) session.end(end);
  }

  #start(place: Place): void {
    const { session, connection } = place;
    session.notify({ kind: 'attached', role: session.role, line: this.#id, offset: 0, replayed: 0, lost: 0 });
    connection.begin();
    if (connection.kind === 'vnc') this.#tellViewers();
  }

  #take(place: Place): void {
    if (place.session.role === 'writer') return;
    this.#seatWriter(place);
    place.connection.becomeWriter();
    place.session.notify({ kind: 'role', role: 'writer', reason: 'you have taken over the screen' });
    this.#tellViewers();
  }

  #seatWriter(place: Place): void {
    const old = this.#writer;
    this.#writer = place;
    place.session.role = 'writer';
    if (!old) return;
    old.session.role = 'viewer';
    const reason = 'another session has taken over the screen';
    if (!old.session.isAware) {
      old.session.end(sessionEnd('takenOver', reason));
      return;
    }
    old.session.notify({ kind: 'role', role: 'viewer', reason });
    old.connection.becomeViewer();
  }

  #leave(place: Place): void {
    place.connection.close();
    this.#places.delete(place);
    if (this.#writer === place) this.#writer = undefined;
    if (this.isEmpty) this.#onEmpty();
    else if (place.connection.kind === 'vnc') this.#tellViewers();
  }

  #tellViewers(): void {
    const count = this.#places.size - (this.#writer ? 1 : 0);
    for (const { session } of this.#places) session.notify({ kind: 'viewers', count });
  }
}
