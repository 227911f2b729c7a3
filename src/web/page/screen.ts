import RFB from '@novnc/novnc';
import type { ScreenEnd } from './screen-session.ts';
import { protocols } from './session.ts';
import type { Stroke } from './typing.ts';

const shiftKey = [0xffe1, 'ShiftLeft'] as const;
const controlKey = [0xffe3, 'ControlLeft'] as const;
const strokeMs = 25;
const plainProtocol = 'plain.kubevirt.io';

/** Keys that a person still holds when the focus leaves; the guest must not think they are down for ever. */
const modifiers: readonly (readonly [keysym: number, code: string])[] = [
  [0xffe3, 'ControlLeft'],
  [0xffe4, 'ControlRight'],
  [0xffe9, 'AltLeft'],
  [0xffea, 'AltRight'],
  [0xff1b, 'Escape'],
];

export interface ScreenHandlers {
  readonly ready: () => void;
  readonly over: (end: ScreenEnd) => void;
}

/** A guest's screen in the page. Fetched only when a screen is opened. */
export class GuestScreen {
  readonly #rfb: RFB;
  readonly #parent: HTMLElement;
  readonly #socket: WebSocket;

  constructor(parent: HTMLElement, url: string, readOnly: boolean, { ready, over }: ScreenHandlers) {
    this.#parent = parent;
    let hasOpened = false;
    const socket = new WebSocket(url, protocols(plainProtocol));
    this.#socket = socket;
    socket.addEventListener('open', () => {
      hasOpened = true;
    });
    socket.addEventListener('close', ({ code, reason }) => over({ hasOpened, code, reason }));
    const rfb = new RFB(parent, socket, { shared: true });
    this.#rfb = rfb;
    rfb.viewOnly = readOnly;
    rfb.background = 'transparent';
    rfb.focusOnClick = true;
    rfb.addEventListener('connect', () => ready());
    parent.querySelector('canvas')?.setAttribute('aria-label', 'Screen; Control Alt Escape leaves it');
  }

  /** Larger or smaller as there is room; else one dot is one dot. */
  set fits(fits: boolean) {
    this.#rfb.scaleViewport = fits;
    this.#rfb.clipViewport = false;
  }

  sendCtrlAltDel(): void {
    this.#rfb.sendCtrlAltDel();
  }

  /** One key after another, as a person does it: QEMU keeps few that the guest has not read yet. `signal` ends it. */
  async type(strokes: readonly Stroke[], signal: AbortSignal): Promise<void> {
    for (const { keysym, code, shift } of strokes) {
      if (signal.aborted || this.#socket.readyState !== WebSocket.OPEN) return;
      if (shift) this.#rfb.sendKey(...shiftKey, true);
      this.#rfb.sendKey(keysym, code, true);
      this.#rfb.sendKey(keysym, code, false);
      if (shift) this.#rfb.sendKey(...shiftKey, false);
      await new Promise((resolve) => setTimeout(resolve, strokeMs));
    }
  }

  press({ keysym, code }: Stroke, withControl: boolean): void {
    if (withControl) this.#rfb.sendKey(...controlKey, true);
    this.#rfb.sendKey(keysym, code, true);
    this.#rfb.sendKey(keysym, code, false);
    if (withControl) this.#rfb.sendKey(...controlKey, false);
  }

  focus(): void {
    this.#rfb.focus({ preventScroll: true });
  }

  releaseKeys(): void {
    for (const [keysym, code] of modifiers) this.#rfb.sendKey(keysym, code, false);
  }

  /** No handler is called any more for what comes of it. */
  close(): void {
    if (this.#socket.readyState <= WebSocket.OPEN) this.#rfb.disconnect();
    this.#parent.replaceChildren();
  }
}
