import { durationText } from '../duration.ts';
import type { VmRow } from '../rows.ts';
import { el, icon, leaveHint, setText } from './dom.ts';
import { FollowedGuest } from './followed-guest.ts';
import type { Panel } from './panel.ts';
import type { GuestScreen } from './screen.ts';
import { ScreenSession, type ScreenState } from './screen-session.ts';
import { streamUrl, whyRefused } from './server-calls.ts';
import { capitalised } from './words.ts';

/** Screen, keyboard and mouse of a VM. */
export class ScreenPanel implements Panel {
  readonly element: HTMLElement;
  readonly #vm: { readonly namespace: string; readonly name: string };
  readonly #role = el('span', { class: 'badge' });
  readonly #notice = el('div', { class: 'notice', role: 'status', hidden: true });
  readonly #noticeText = el('span');
  readonly #take: HTMLButtonElement;
  readonly #again: HTMLButtonElement;
  readonly #readOnly: HTMLInputElement;
  readonly #fit: HTMLInputElement;
  readonly #ctrlAltDel: HTMLButtonElement;
  readonly #screen = el('div', { class: 'screen' });
  #guest: GuestScreen | undefined;
  #session: ScreenSession | undefined;
  #state: ScreenState = { kind: 'connecting' };
  readonly #followed = new FollowedGuest();
  #hasClosed = false;

  constructor(vm: { readonly namespace: string; readonly name: string }) {
    this.#vm = vm;
    const button = (label: string, click: () => void, name = '') =>
      el('button', { type: 'button', class: name, on: { click } }, label);
    this.#take = button('Take over', () => this.#takeOver(), 'primary');
    this.#again = button('Connect again', () => this.#session?.open());
    this.#ctrlAltDel = button('Ctrl+Alt+Del', () => this.#guest?.sendCtrlAltDel());
    this.#readOnly = el('input', {
      type: 'checkbox',
      id: 'read-only',
      on: { change: () => this.#session?.open(this.#readOnly.checked) },
    });
    this.#fit = el('input', { type: 'checkbox', id: 'fit', checked: true, on: { change: () => this.#setFit() } });
    const full = el(
      'button',
      { type: 'button', on: { click: () => void this.#fullScreen() } },
      icon('full'),
      'Full screen',
    );
    this.#notice.append(this.#noticeText, this.#take, this.#again);
    const bar = el(
      'div',
      { class: 'bar' },
      this.#role,
      el('label', { for: 'read-only' }, this.#readOnly, 'Read only'),
      el('label', { for: 'fit' }, this.#fit, 'Fit'),
      this.#ctrlAltDel,
      full,
      leaveHint('screen'),
    );
    this.element = el('div', { class: 'screen-panel' }, bar, this.#notice, this.#screen);
    // Before the screen sees it, which keeps all keys for the guest.
    this.#screen.addEventListener('keydown', (event) => this.#onKey(event), { capture: true });
    this.#show({ kind: 'connecting' });
    void this.#start();
  }

  update(row: VmRow | undefined): void {
    const isJoined = this.#state.kind !== 'ended' && this.#state.kind !== 'waiting';
    if (this.#followed.update(row, isJoined)) this.#session?.open();
  }

  close(): void {
    this.#hasClosed = true;
    this.#session?.close();
  }

  async #start(): Promise<void> {
    const { GuestScreen } = await import('./screen.ts');
    if (this.#hasClosed) return;
    const vm = this.#vm;
    this.#session = new ScreenSession({
      state: (state) => this.#show(state),
      connect: (query, { ready, over }) => {
        const isReadOnly = query.get('access') === 'view';
        this.#screen.replaceChildren();
        let isOver = false;
        const guest = new GuestScreen(this.#screen, streamUrl(vm, 'vnc', query), isReadOnly, {
          ready: () => {
            this.#setFit();
            ready();
            if (!isReadOnly) guest.focus();
          },
          over: (end) => {
            if (isOver) return;
            isOver = true;
            over(end);
          },
        });
        this.#guest = guest;
        return () => {
          isOver = true;
          guest.close();
        };
      },
      explain: () => whyRefused(vm, 'vnc'),
      schedule: (ms, callback) => {
        const timer = setTimeout(callback, ms);
        return () => clearTimeout(timer);
      },
      chance: Math.random,
    });
    this.#session.open(false);
  }

  #show(state: ScreenState): void {
    this.#state = state;
    const hasInput = state.kind === 'connected' && !state.readOnly;
    setText(this.#role, badgeText(state));
    this.#role.dataset.tone =
      state.kind === 'connected' ? (hasInput ? 'good' : 'paused') : state.kind === 'ended' ? 'off' : 'busy';
    const notice = noticeText(state, this.#readOnly.checked);
    setText(this.#noticeText, notice);
    this.#notice.hidden = notice === '';
    this.#take.hidden = state.kind !== 'connected' || hasInput;
    this.#again.hidden = state.kind !== 'ended' && state.kind !== 'waiting';
    this.#ctrlAltDel.disabled = !hasInput;
    this.element.dataset.state = state.kind === 'connected' ? (hasInput ? 'writer' : 'viewer') : state.kind;
  }

  #takeOver(): void {
    this.#readOnly.checked = false;
    this.#session?.take();
  }

  #setFit(): void {
    if (this.#guest) this.#guest.fits = this.#fit.checked;
    this.#screen.classList.toggle('is-whole', !this.#fit.checked);
  }

  async #fullScreen(): Promise<void> {
    await this.#screen.requestFullscreen().catch(() => undefined);
    this.#guest?.focus();
  }

  #onKey(event: KeyboardEvent): void {
    if (!(event.ctrlKey && event.altKey && event.key === 'Escape')) return;
    event.preventDefault();
    event.stopPropagation();
    this.#guest?.releaseKeys();
    if (document.fullscreenElement) void document.exitFullscreen();
    this.#readOnly.focus();
  }
}

function badgeText(state: ScreenState): string {
  switch (state.kind) {
    case 'connecting':
      return 'Connecting';
    case 'connected':
      return state.readOnly ? 'Watching' : 'You control';
    case 'waiting':
      return 'Reconnecting';
    case 'ended':
      return 'Ended';
  }
}

function noticeText(state: ScreenState, readOnly: boolean): string {
  switch (state.kind) {
    case 'connecting':
      return '';
    case 'connected':
      return !state.readOnly || readOnly
        ? ''
        : `${capitalised(state.reason ?? 'somebody else controls it')}: you watch.`;
    case 'waiting':
      return `${capitalised(state.reason)}: tried again in ${durationText(state.inMs)}.`;
    case 'ended':
      return `${capitalised(state.reason)}.`;
  }
}
