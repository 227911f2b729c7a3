import { signal } from '@preact/signals';
import type { VmRow } from '../rows.ts';
import { schedule } from './backoff.ts';
import { ConsoleSession, consoleProtocol, serialSize } from './console-session.ts';
import { Checkbox } from './elements.tsx';
import { KeyBar } from './key-bar.tsx';
import { useOwned } from './owned.ts';
import type { PageState } from './page-state.ts';
import { PasteButton } from './paste-dialog.tsx';
import { streamUrl, type Vm, whyRefused } from './server-calls.ts';
import { protocols } from './session.ts';
import { Stream, type StreamState } from './stream.ts';
import { StreamPanel } from './stream-panel.tsx';
import type { GuestTerminal } from './terminal.ts';
import { terminalKeys } from './typing.ts';
import { count } from './words.ts';

const narrow = '(max-width: 46rem)';

class Console extends Stream {
  readonly isReadAloud = signal(false);
  /** 80 columns of a telephone are too small to read. */
  readonly fillsWindow = signal(matchMedia(narrow).matches);
  readonly size = signal(serialSize);
  #terminal: GuestTerminal | undefined;

  protected async prepare(parent: HTMLElement, onLeave: () => void): Promise<ConsoleSession | undefined> {
    const { GuestTerminal } = await import('./terminal.ts');
    if (this.hasClosed) return undefined;
    const terminal = new GuestTerminal(parent, {
      onInput: (bytes) => session.input(bytes),
      onLeave,
      onResize: (columns, rows) => {
        this.size.value = { columns, rows };
      },
    });
    const session = this.#sessionOn(terminal);
    this.#terminal = terminal;
    terminal.readOnly = true;
    // What was chosen while the terminal was fetched.
    terminal.isReadAloud = this.isReadAloud.value;
    terminal.fillsWindow = this.fillsWindow.value;
    terminal.focus();
    return session;
  }

  override take(): void {
    super.take();
    this.#terminal?.focus();
  }

  override setReadOnly(isReadOnly: boolean): void {
    super.setReadOnly(isReadOnly);
    if (!isReadOnly) this.#terminal?.focus();
  }

  /** As if it were typed. */
  type(text: string): void {
    this.#terminal?.type(text);
  }

  paste(text: string): void {
    this.#terminal?.paste(text);
    this.#terminal?.focus();
  }

  setReadAloud(isReadAloud: boolean): void {
    this.isReadAloud.value = isReadAloud;
    if (this.#terminal) this.#terminal.isReadAloud = isReadAloud;
  }

  setFillsWindow(fills: boolean): void {
    this.fillsWindow.value = fills;
    if (this.#terminal) this.#terminal.fillsWindow = fills;
  }

  override close(): void {
    super.close();
    this.#terminal?.close();
  }

  #sessionOn(terminal: GuestTerminal): ConsoleSession {
    const { vm } = this;
    const show = (state: StreamState) => {
      this.shown(state);
      terminal.readOnly = this.role !== 'writer';
    };
    return new ConsoleSession({
      events: {
        state: show,
        fresh: () => terminal.reset(),
        moved: (reason) => terminal.remark(reason),
        output: (bytes, replayed) => terminal.write(bytes, replayed),
        lost: (bytes) => terminal.remark(`${count(bytes, 'byte')} of the console were lost`),
      },
      connect: (query) => new WebSocket(streamUrl(vm, 'console', query), protocols(consoleProtocol)),
      explain: () => whyRefused(vm, 'console'),
      schedule,
      chance: Math.random,
    });
  }
}

export interface StreamSideProps {
  readonly state: PageState;
  readonly vm: Vm;
  readonly row: VmRow | undefined;
}

const words = { you: 'You type', another: 'somebody else types here' };

/** The serial console of a VM: who types, who watches, and the terminal. */
export function ConsolePanel({ state, vm, row }: StreamSideProps) {
  const stream = useOwned(() => new Console(vm));
  const controls = <Controls stream={stream} />;
  return (
    <StreamPanel
      state={state}
      class="console"
      stream={stream}
      row={row}
      words={words}
      draws="terminal"
      controls={controls}>
      {(parent) => (
        <>
          <div class="serial">
            <div class="serial-inner" ref={parent} />
          </div>
          <KeyBar
            isDisabled={stream.role !== 'writer'}
            keys={terminalKeys.map(([label, says, sends]) => ({ label, says, press: () => stream.type(sends) }))}
          />
          <SizeHint stream={stream} />
        </>
      )}
    </StreamPanel>
  );
}

function Controls({ stream }: { readonly stream: Console }) {
  const setReadAloud = (isChecked: boolean) => stream.setReadAloud(isChecked);
  return (
    <>
      <Checkbox id="read-aloud" label="For screen readers" is={stream.isReadAloud.value} onChange={setReadAloud} />
      <select
        aria-label="Size of the terminal"
        value={stream.fillsWindow.value ? 'window' : 'serial'}
        onChange={({ currentTarget }) => stream.setFillsWindow(currentTarget.value === 'window')}>
        <option value="serial">80 × 24</option>
        <option value="window">As large as the window</option>
      </select>
      <PasteButton
        isDisabled={stream.role !== 'writer'}
        hint="It is typed into the console as it is; each line break is Enter."
        problem={() => ''}
        onPaste={(text) => stream.paste(text)}
      />
    </>
  );
}

/** A serial line has no way to report the size to the guest. */
function SizeHint({ stream }: { readonly stream: Console }) {
  const { columns, rows } = stream.size.value;
  if (!stream.fillsWindow.value) return null;
  const command = `stty cols ${columns} rows ${rows}`;
  return (
    <p class="hint">
      The guest does not know this size. Tell it there: <code>{command}</code>{' '}
      <button type="button" disabled={stream.role !== 'writer'} onClick={() => stream.type(`${command}\r`)}>
        Type it
      </button>
    </p>
  );
}
