import { type SessionEnd, sessionEnd } from './close.ts';
import { mayNotTake } from './notices.ts';
import type { OwnConnection } from './own-connection.ts';
import { RfbClientStream } from './rfb-client-stream.ts';
import type { Session } from './session.ts';
import { type Access, isView } from './stream-request.ts';

/** A session with the connection that is its own. */
interface Attachment {
  readonly session: Session;
  readonly connection: OwnConnection;
  readonly mayTake: boolean;
}

/**
 * The sessions of one VMI's screen, each with its own connection, one of them the writer; or those of its USB redirection,
 * which have nothing to do with each other.
 */
export class DeviceSessions {
  readonly #id: string;
  readonly #onEmpty: () => void;
  readonly #attachments = new Set<Attachment>();
  #writer: Attachment | undefined;

  /** `onEmpty` may be called more than once. */
  constructor(id: string, onEmpty: () => void) {
    this.#id = id;
    this.#onEmpty = onEmpty;
  }

  get hasWriter(): boolean {
    return this.#writer !== undefined;
  }

  get isEmpty(): boolean {
    return this.#attachments.size === 0;
  }

  join(session: Session, connection: OwnConnection, access: Access): void {
    const attachment = { session, connection, mayTake: access !== 'view-only' };
    const isViewer = connection.kind === 'vnc' && isView(access);
    const client =
      connection.kind === 'vnc'
        ? new RfbClientStream({ isViewer, staysWriter: !session.isAware && !isViewer })
        : undefined;
    session.role = isViewer ? 'viewer' : 'writer';
    this.#attachments.add(attachment);
    connection.bind(session, client);
    if (connection.kind === 'vnc' && !isViewer && !session.hasEnded) this.#makeWriter(attachment);
    session.join({
      started: () => this.#start(attachment),
      input: (pieces) => connection.input(pieces),
      command: () => this.#take(attachment),
      drained: () => connection.drained(),
      left: () => this.#leave(attachment),
    });
  }

  close(end: SessionEnd): void {
    for (const { session } of this.#attachments) session.end(end);
  }

  #start(attachment: Attachment): void {
    const { session, connection } = attachment;
    session.notify({ kind: 'attached', role: session.role, line: this.#id, offset: 0, replayed: 0, lost: 0 });
    connection.begin();
    if (connection.kind === 'vnc') this.#announceViewers();
  }

  #take(attachment: Attachment): void {
    if (attachment.session.role === 'writer') return;
    if (!attachment.mayTake) {
      attachment.session.notify({ kind: 'role', role: 'viewer', reason: mayNotTake });
      return;
    }
    this.#makeWriter(attachment);
    attachment.connection.becomeWriter();
    attachment.session.notify({ kind: 'role', role: 'writer', reason: 'you have taken over the screen' });
    this.#announceViewers();
  }

  #makeWriter(attachment: Attachment): void {
    const old = this.#writer;
    this.#writer = attachment;
    attachment.session.role = 'writer';
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

  #leave(attachment: Attachment): void {
    attachment.connection.close();
    this.#attachments.delete(attachment);
    if (this.#writer === attachment) this.#writer = undefined;
    if (this.isEmpty) this.#onEmpty();
    else if (attachment.connection.kind === 'vnc') this.#announceViewers();
  }

  #announceViewers(): void {
    const count = this.#attachments.size - (this.#writer ? 1 : 0);
    for (const { session } of this.#attachments) session.notify({ kind: 'viewers', count });
  }
}
