import { durationText } from '../duration.ts';
import type { VmRow } from '../rows.ts';
import { ConsoleSession, type ConsoleState, consoleProtocol } from './console-session.ts';
import { el, leaveHint, setText } from './dom.ts';
import { FollowedGuest } from './followed-guest.ts';
import type { Panel } from './panel.ts';
import { streamUrl, whyRefused } from './server-calls.ts';
import { protocols } from './session.ts';
import type { GuestTerminal } from './terminal.ts';
import { capitalised, count } from './words.ts';

/** The serial console of a VM: who types, who watches, and the terminal. */
export class ConsolePanel implements Panel {
  readonly element: HTMLElement;
  readonly #vm: { readonly namespace: string; readonly name: string };
  readonly #role = el('span', { class: 'badge' });
  readonly #viewers = el('span', { class: 'viewers' });
  readonly #notice = el('div', { class: 'notice', role: 'status', hidden: true });
  readonly #noticeText = el('span');
  readonly #take: HTMLButtonElement;
  readonly #again: HTMLButtonElement;
  readonly #readOnly: HTMLInputElement;
  readonly #readAloud: HTMLInputElement;
  readonly #size: HTMLSelectElement;
  readonly #sizeHint = el('p', { class: 'hint', hidden: true });
  readonly #screen = el('div', { class: 'serial-inner' });
  #terminal: GuestTerminal | undefined;
  #session: ConsoleSession | undefined;
  #state: ConsoleState = { kind: 'connecting' };
  readonly #followed = new FollowedGuest();
  #hasClosed = false;

  constructor(vm: { readonly namespace: string; readonly name: string }) {
    this.#vm = vm;
    this.#take = el('button', { type: 'button', class: 'primary', on: { click: () => this.#takeOver() } }, 'Take over');
    this.#again = el('button', { type: 'button', on: { click: () => this.#session?.open() } }, 'Connect again');
    this.#readOnly = el('input', { type: 'checkbox', id: 'read-only', on: { change: () => this.#setReadOnly() } });
    this.#readAloud = el('input', { type: 'checkbox', id: 'read-aloud', on: { change: () => this.#setReadAloud() } });
    this.#size = el(
      'select',
      { 'aria-label': 'Size of the terminal', on: { change: () => this.#setSize() } },
      el('option', { value: 'serial' }, '80 × 24'),
      el('option', { value: 'window' }, 'As large as the window'),
    );
    this.#notice.append(this.#noticeText, this.#take, this.#again);
    const bar = el(
      'div',
      { class: 'bar' },
      this.#role,
      this.#viewers,
      el('label', { for: 'read-only' }, this.#readOnly, 'Read only'),
      el('label', { for: 'read-aloud' }, this.#readAloud, 'For screen readers'),
      this.#size,
      leaveHint('terminal'),
    );
    this.element = el(
      'div',
      { class: 'console' },
      bar,
      this.#notice,
      el('div', { class: 'serial' }, this.#screen),
      this.#sizeHint,
    );
    this.#show({ kind: 'connecting' });
    void this.#start();
  }

  update(row: VmRow | undefined): void {
    const isJoined = this.#state.kind !== 'ended' && this.#state.kind !== 'waiting';
    if (this.#followed.update(row, isJoined)) this.#session?.open();
  }

  focus(): void {
    this.#terminal?.focus();
  }

  close(): void {
    this.#hasClosed = true;
    this.#session?.close();
    this.#terminal?.close();
  }

  async #start(): Promise<void> {
    const { GuestTerminal } = await import('./terminal.ts');
    if (this.#hasClosed) return;
    const session = this.#newSession();
    this.#session = session;
    this.#terminal = new GuestTerminal(this.#screen, {
      onInput: (bytes) => session.input(bytes),
      onLeave: () => this.#readOnly.focus(),
      onResize: (columns, rows) => this.#showSize(columns, rows),
    });
    this.#terminal.readOnly = true;
    this.#terminal.focus();
    session.open(false);
  }

  #newSession(): ConsoleSession {
    const vm = this.#vm;
    return new ConsoleSession({
      events: {
        state: (state) => this.#show(state),
        fresh: () => this.#terminal?.reset(),
        output: (bytes, replayed) => this.#terminal?.write(bytes, replayed),
        lost: (bytes) => this.#terminal?.remark(`${count(bytes, 'byte')} of the console were lost`),
      },
      connect: (query) => new WebSocket(streamUrl(vm, 'console', query), protocols(consoleProtocol)),
      explain: () => whyRefused(vm, 'console'),
      schedule: (ms, callback) => {
        const timer = setTimeout(callback, ms);
        return () => clearTimeout(timer);
      },
      chance: Math.random,
    });
  }

  #show(state: ConsoleState): void {
    this.#state = state;
    const isWriter = state.kind === 'attached' && state.role === 'writer';
    setText(this.#role, badgeText(state));
    this.#role.dataset.tone =
      state.kind === 'attached' ? (isWriter ? 'good' : 'paused') : state.kind === 'ended' ? 'off' : 'busy';
    setText(this.#viewers, state.kind === 'attached' ? watching(state.viewers, isWriter) : '');
    const notice = noticeText(state, this.#readOnly.checked);
    setText(this.#noticeText, notice);
    this.#notice.hidden = notice === '';
    this.#take.hidden = state.kind !== 'attached' || isWriter;
    this.#again.hidden = state.kind !== 'ended' && state.kind !== 'waiting';
    if (this.#terminal) this.#terminal.readOnly = !isWriter;
    this.element.dataset.state = state.kind === 'attached' ? state.role : state.kind;
  }

  #takeOver(): void {
    this.#readOnly.checked = false;
    this.#session?.take();
    this.#terminal?.focus();
  }

  #setReadOnly(): void {
    this.#session?.open(this.#readOnly.checked);
    if (!this.#readOnly.checked) this.#terminal?.focus();
  }

  #setReadAloud(): void {
    if (this.#terminal) this.#terminal.isReadAloud = this.#readAloud.checked;
  }

  #setSize(): void {
    const fills = this.#size.value === 'window';
    if (this.#terminal) this.#terminal.fillsWindow = fills;
    this.#sizeHint.hidden = !fills;
  }

  /** A serial line cannot tell a guest the size. */
  #showSize(columns: number, rows: number): void {
    const command = el('code', {}, `stty cols ${columns} rows ${rows}`);
    this.#sizeHint.replaceChildren('The guest does not know this size. Tell it there: ', command);
  }
}

function badgeText(state: ConsoleState): string {
  switch (state.kind) {
    case 'connecting':
      return 'Connecting';
    case 'attached':
      return state.role === 'writer' ? 'You type' : 'Watching';
    case 'waiting':
      return 'Reconnecting';
    case 'ended':
      return 'Ended';
  }
}

/** The one who types is not counted. */
function watching(viewers: number, isWriter: boolean): string {
  const others = isWriter ? viewers : viewers - 1;
  return others > 0 ? `${count(others, 'other')} ${others === 1 ? 'watches' : 'watch'}` : '';
}

function noticeText(state: ConsoleState, readOnly: boolean): string {
  switch (state.kind) {
    case 'connecting':
      return '';
    case 'attached':
      if (state.role === 'writer' || readOnly) return '';
      return state.reason ? `${capitalised(state.reason)}: you watch.` : 'Somebody else types here: you watch.';
    case 'waiting':
      return `${capitalised(state.reason)}: tried again in ${durationText(state.inMs)}.`;
    case 'ended':
      return `${capitalised(state.reason)}.`;
  }
}
