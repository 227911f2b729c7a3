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
  take(): void;
  close(): void;
}

/** One stream of a VM as its panel shows it: the session, and what draws the guest into an element of its own. */
export abstract class Stream {
  readonly state = signal<StreamState>({ kind: 'connecting' });
  readonly isReadOnly = signal(false);
  protected readonly vm: Vm;
  protected hasClosed = false;
  readonly #followed = new FollowedGuest();
  #session: Session | undefined;

  constructor(vm: Vm) {
    this.vm = vm;
  }

  /** Fetches what draws, and gives the session, which is not opened yet; undefined: `hasClosed` meanwhile. */
  protected abstract prepare(parent: HTMLElement, onLeave: () => void): Promise<Session | undefined>;

  /** `onLeave`: the keyboard is given back to the page. */
  async start(parent: HTMLElement, onLeave: () => void): Promise<void> {
    this.#session = await this.prepare(parent, onLeave);
    this.#session?.open(this.isReadOnly.value);
  }

  follow(row: VmRow | undefined): void {
    if (this.#followed.update(row, !this.isOver)) this.#session?.open();
  }

  connect(): void {
    this.#session?.open();
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

/** The guest that a panel shows, of a machine that may be started again with another one. */
export class FollowedGuest {
  #uid: string | undefined;

  /** True: there is a guest to join anew. `isJoined`: the panel is with the one it had, or on its way to it. */
  update(row: VmRow | undefined, isJoined: boolean): boolean {
    const before = this.#uid;
    const uid = row && hasGuest(row) ? row.vmi?.uid : undefined;
    this.#uid = uid;
    if (uid === undefined) return false;
    return before === undefined ? !isJoined : uid !== before;
  }
}
