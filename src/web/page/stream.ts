import { signal } from '@preact/signals';
import type { VmRow } from '../rows.ts';
import type { ConsoleState } from './console-session.ts';
import { hasGuest } from './row-model.ts';
import type { Vm } from './server-calls.ts';

/** How a console or a screen stands with its guest. */
export type StreamState = ConsoleState;

/** Connections that come and go. */
interface Session {
  open(readOnly?: boolean): void;
  follow(reason: string): void;
  take(): void;
  close(): void;
}

/** One stream of a VM as its panel shows it: the session, and what draws the guest into an element of its own. */
export abstract class Stream {
  readonly state = signal<StreamState>({ kind: 'connecting' });
  readonly isReadOnly = signal(false);
  /** There is something of a guest to see, be it of one that has ended. */
  readonly hasShown = signal(false);
  protected readonly vm: Vm;
  protected hasClosed = false;
  readonly #followed = new FollowedGuest();
  #session: Session | undefined;

  constructor(vm: Vm) {
    this.vm = vm;
  }

  /** Fetches what draws, and gives the session, which is not opened yet; undefined: `hasClosed` meanwhile. */
  protected abstract prepare(parent: HTMLElement, onLeave: () => void): Promise<Session | undefined>;

  /** `onLeave`: the keyboard is given back to the page. `hasNothing`: there is no guest to join yet. */
  async start(parent: HTMLElement, onLeave: () => void, hasNothing: () => boolean): Promise<void> {
    this.#session = await this.prepare(parent, onLeave);
    if (hasNothing()) this.state.value = { kind: 'ended', reason: '' };
    else this.#session?.open(this.isReadOnly.value);
  }

  follow(row: VmRow | undefined): void {
    const news = this.#followed.update(row, !this.isOver);
    if (news.kind === 'another-guest') this.#session?.open(this.isReadOnly.value);
    else if (news.kind === 'another-node') this.#session?.follow(`the virtual machine goes on at node ${news.node}`);
  }

  connect(): void {
    this.#session?.open(this.isReadOnly.value);
  }

  take(): void {
    this.isReadOnly.value = false;
    this.#session?.take();
  }

  setReadOnly(isReadOnly: boolean): void {
    this.isReadOnly.value = isReadOnly;
    this.#session?.open(isReadOnly);
  }

  close(): void {
    this.hasClosed = true;
    this.#session?.close();
  }

  /** To be called when a session has joined. */
  protected shown(state: StreamState): void {
    this.state.value = state;
    if (state.kind === 'attached') this.hasShown.value = true;
  }

  /** Undefined while it is not connected. */
  get role(): 'writer' | 'viewer' | undefined {
    const state = this.state.value;
    return state.kind === 'attached' ? state.role : undefined;
  }

  /** Neither connected nor on its way. */
  get isOver(): boolean {
    const { kind } = this.state.value;
    return kind === 'ended' || kind === 'waiting';
  }
}

/** What a row says that the panel does not know yet. */
type News =
  | { readonly kind: 'nothing' }
  /** There is a guest to join anew. */
  | { readonly kind: 'another-guest' }
  /** The same one, which has moved. */
  | { readonly kind: 'another-node'; readonly node: string };

/** The guest that a panel shows, of a machine that may be started again with another one, or move. */
export class FollowedGuest {
  #uid: string | undefined;
  #node: string | undefined;

  /** `isJoined`: the panel is with the one it had, or on its way to it. */
  update(row: VmRow | undefined, isJoined: boolean): News {
    const before = { uid: this.#uid, node: this.#node };
    const guest = row && hasGuest(row) ? row.vmi : undefined;
    this.#uid = guest?.uid;
    this.#node = guest?.node;
    if (guest === undefined) return { kind: 'nothing' };
    if (before.uid === undefined) return { kind: isJoined ? 'nothing' : 'another-guest' };
    if (before.uid !== guest.uid) return { kind: 'another-guest' };
    const { node } = guest;
    // The agent's word comes first as a rule, and the stream is on its way then.
    const hasMoved = before.node !== undefined && node !== undefined && before.node !== node;
    return hasMoved && !isJoined ? { kind: 'another-node', node } : { kind: 'nothing' };
  }
}
