import type { Key, LauncherAddress } from '../api/index.ts';
import { unreachable } from '../base/index.ts';
import type { OpenConnection } from './connection.ts';
import { LauncherClientError } from './errors.ts';
import type { SocketSearch } from './search.ts';

/**
 * What is published of each launcher to those who follow them. Each promise is awaited before the launcher's next state is
 * entered, so a subscriber has what it needs before anything can be lost, and before the caller of `connect` goes on.
 */
export interface LauncherSubscriber {
  /** Its socket was found and is dialled next. A rejection ends the attempt. */
  onConnecting(address: LauncherAddress): Promise<void>;
  /** It was dialled and may be called; no caller has the connection yet. A rejection closes it. */
  onConnected(connection: OpenConnection): Promise<void>;
  /** The connection broke: `inspect` finds out what that means. */
  onBroken(connection: OpenConnection): void;
  /** Its VMI is cleaned up and its connection was closed: what is kept of it goes. */
  onDraining(key: Key, uid: string): Promise<void>;
}

/** Of one launcher. Each state carries its own data; each transition is one function of LauncherActor. */
export type ActorState =
  /** It is not connected to; its socket may be waited for. */
  | { readonly kind: 'probing'; readonly search: SocketSearch }
  /** Subscribers prepare, then its socket is dialled. */
  | { readonly kind: 'connecting'; readonly search: SocketSearch; readonly attempt: Promise<OpenConnection> }
  /** Subscribers make use of the connection first. */
  | {
      readonly kind: 'connected';
      readonly search: SocketSearch;
      readonly attempt: Promise<OpenConnection>;
      readonly connection: OpenConnection;
    }
  /** All callers may use the connection. One that broke is kept as long as its launcher may be there: gRPC dials again by itself. */
  | { readonly kind: 'attached'; readonly connection: OpenConnection }
  /** The VMI is cleaned up. Final. */
  | { readonly kind: 'draining'; readonly drained: Promise<void> }
  /** The agent leaves: the launcher and all records stay. Final. */
  | { readonly kind: 'left' };

export type In<Kind extends ActorState['kind']> = Extract<ActorState, { kind: Kind }>;

/** Closes what is held in this state. */
export function letGo(state: ActorState): void {
  switch (state.kind) {
    case 'probing':
    case 'connecting':
      state.search.end();
      return;
    case 'connected':
      state.search.end();
      state.connection.close();
      return;
    case 'attached':
      state.connection.close();
      return;
    case 'draining':
    case 'left':
      return;
    default:
      unreachable(state);
  }
}

/** Why nothing is done for a launcher any more. */
export function closed(state: ActorState): LauncherClientError {
  return new LauncherClientError(
    'CLOSED',
    state.kind === 'draining' ? 'the VMI was cleaned up' : 'the launcher clients were stopped',
  );
}
