import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import { serialSize } from './console-session.ts';

const fontPx = { smallest: 6, narrow: 12, usual: 14, largest: 20 };
const narrowPx = 500;

export interface GuestTerminalHandlers {
  /** What a person typed, and what the terminal answers to a guest's questions. */
  readonly onInput: (bytes: Uint8Array<ArrayBuffer>) => void;
  /** Ctrl+Alt+Escape. */
  readonly onLeave: () => void;
  readonly onResize: (columns: number, rows: number) => void;
}

/** A terminal in the page. Fetched only when a console is opened. */
export class GuestTerminal {
  readonly #terminal: Terminal;
  readonly #parent: HTMLElement;
  readonly #fit = new FitAddon();
  readonly #observer: ResizeObserver;
  readonly #encoder = new TextEncoder();
  #fillsWindow = false;
  /** Pieces of the past that are not on the screen yet: answers to them are not sent. */
  #replaying = 0;

  constructor(parent: HTMLElement, { onInput, onLeave, onResize }: GuestTerminalHandlers) {
    const terminal = new Terminal({
      cols: serialSize.columns,
      rows: serialSize.rows,
      fontFamily: 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace',
      fontSize: fontPx.usual,
      scrollback: 5_000,
      cursorBlink: false,
      screenReaderMode: false,
      theme: { background: '#10151c', foreground: '#dde5ee', cursor: '#7db4ff', selectionBackground: '#37506f' },
    });
    this.#terminal = terminal;
    this.#parent = parent;
    terminal.loadAddon(this.#fit);
    terminal.open(parent);
    terminal.textarea?.setAttribute('aria-label', 'Serial console; Control Alt Escape leaves it');
    terminal.attachCustomKeyEventHandler((event) => {
      if (!(event.ctrlKey && event.altKey && event.key === 'Escape')) return true;
      if (event.type === 'keydown') onLeave();
      return false;
    });
    const send = (bytes: Uint8Array<ArrayBuffer>) => {
      if (this.#replaying === 0) onInput(bytes);
    };
    terminal.onData((text) => send(this.#encoder.encode(text)));
    terminal.onBinary((text) => send(Uint8Array.from(text, (character) => character.charCodeAt(0))));
    terminal.onResize(({ cols, rows }) => onResize(cols, rows));
    this.#observer = new ResizeObserver(() => this.#layOut());
    this.#observer.observe(parent);
    this.#layOut();
  }

  write(bytes: Uint8Array, replayed: boolean): void {
    if (!replayed) this.#terminal.write(bytes);
    else {
      this.#replaying++;
      this.#terminal.write(bytes, () => {
        this.#replaying--;
      });
    }
  }

  /** A line of the page's own, dimmed, so that it is not taken for one of the guest's. */
  remark(text: string): void {
    this.#terminal.write(`\r\n\u001b[2m[${text}]\u001b[0m\r\n`);
  }

  reset(): void {
    this.#terminal.reset();
  }

  set readOnly(isReadOnly: boolean) {
    this.#terminal.options.disableStdin = isReadOnly;
    this.#terminal.options.cursorInactiveStyle = isReadOnly ? 'none' : 'outline';
  }

  /** As many columns and rows as there is room for; else those of a serial line, as large as there is room for. */
  set fillsWindow(fills: boolean) {
    this.#fillsWindow = fills;
    this.#layOut();
  }

  /** Screen readers read what the guest writes; costs time with much output. */
  set isReadAloud(isReadAloud: boolean) {
    this.#terminal.options.screenReaderMode = isReadAloud;
  }

  /** As if it were typed; nothing while it is read only. */
  type(text: string): void {
    if (!this.#terminal.options.disableStdin) this.#terminal.input(text);
  }

  /** Line breaks become Enter; a program that asked for it is told that it is a paste. */
  paste(text: string): void {
    if (!this.#terminal.options.disableStdin) this.#terminal.paste(text);
  }

  focus(): void {
    this.#terminal.focus();
  }

  close(): void {
    this.#observer.disconnect();
    this.#terminal.dispose();
  }

  #layOut(): void {
    const terminal = this.#terminal;
    if (this.#fillsWindow) {
      terminal.options.fontSize = this.#parent.clientWidth < narrowPx ? fontPx.narrow : fontPx.usual;
      this.#fit.fit();
      return;
    }
    const { columns, rows } = serialSize;
    terminal.resize(columns, rows);
    terminal.options.fontSize = fontPx.largest;
    for (let size = fontPx.largest; size > fontPx.smallest; size--) {
      const room = this.#fit.proposeDimensions();
      if (!room || (room.cols >= columns && room.rows >= rows)) break;
      terminal.options.fontSize = size - 1;
    }
  }
}
