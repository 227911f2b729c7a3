import { signal } from '@preact/signals';
import { schedule } from './backoff.ts';
import type { StreamSideProps } from './console-panel.tsx';
import { saveFile } from './download.ts';
import { Checkbox, icon } from './elements.tsx';
import { KeyBar } from './key-bar.tsx';
import { useOwned } from './owned.ts';
import { PasteButton } from './paste-dialog.tsx';
import { hasGuest } from './row-model.ts';
import type { GuestScreen } from './screen.ts';
import { type ScreenDeps, ScreenSession, type ScreenState } from './screen-session.ts';
import { screenshot, streamUrl, type Vm, whyRefused } from './server-calls.ts';
import { Stream, type StreamState } from './stream.ts';
import { StreamPanel } from './stream-panel.tsx';
import { type Stroke, screenKeys, typingOf, typingProblem } from './typing.ts';
import { messageOf } from './words.ts';

class Screen extends Stream {
  readonly fits = signal(true);
  #parent: HTMLElement | undefined;
  #guest: GuestScreen | undefined;
  readonly #typing = new AbortController();
  #typed: Promise<void> = Promise.resolve();

  protected async prepare(parent: HTMLElement): Promise<ScreenSession | undefined> {
    const { GuestScreen } = await import('./screen.ts');
    if (this.hasClosed) return undefined;
    this.#parent = parent;
    return new ScreenSession({
      state: (state) => {
        this.shown(streamState(state));
      },
      connect: (query, on) => this.#connectGuest(GuestScreen, parent, query, on),
      explain: () => whyRefused(this.vm, 'vnc'),
      schedule,
      chance: Math.random,
    });
  }

  setFits(fits: boolean): void {
    this.fits.value = fits;
    if (this.#guest) this.#guest.fits = fits;
  }

  sendCtrlAltDel(): void {
    this.#guest?.sendCtrlAltDel();
  }

  async fullScreen(): Promise<void> {
    await this.#parent?.requestFullscreen().catch(() => undefined);
    this.#guest?.focus();
  }

  /** After the texts before it: half a text is worse than a late one. */
  typeText(text: string): void {
    const guest = this.#guest;
    guest?.focus();
    this.#typed = this.#typed.then(() => guest?.type(typingOf(text).strokes, this.#typing.signal));
  }

  press(stroke: Stroke, withControl: boolean): void {
    this.#guest?.press(stroke, withControl);
  }

  override close(): void {
    this.#typing.abort();
    super.close();
  }

  releaseKeys(): void {
    this.#guest?.releaseKeys();
  }

  #connectGuest(
    Guest: typeof GuestScreen,
    parent: HTMLElement,
    query: URLSearchParams,
    { ready, over }: Parameters<ScreenDeps['connect']>[1],
  ): () => void {
    const isReadOnly = query.get('access') === 'view';
    parent.replaceChildren();
    let isOver = false;
    const guest = new Guest(parent, streamUrl(this.vm, 'vnc', query), isReadOnly, {
      ready: () => {
        guest.fits = this.fits.value;
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
  }
}

/** The page's screens get no notice of how many others watch. */
function streamState(state: ScreenState): StreamState {
  if (state.kind !== 'connected') return state;
  const attached = { kind: 'attached', role: state.readOnly ? 'viewer' : 'writer', viewers: 0 } as const;
  return state.reason === undefined ? attached : { ...attached, reason: state.reason };
}

const words = { you: 'You control', another: 'somebody else controls it' };

/** Screen, keyboard and mouse of a VM. */
export function ScreenPanel({ state, vm, row }: StreamSideProps) {
  const stream = useOwned(() => new Screen(vm));
  const controls = <Controls state={state} vm={vm} row={row} stream={stream} />;
  const onKey = (event: KeyboardEvent, leave: () => void) => {
    if (!(event.ctrlKey && event.altKey && event.key === 'Escape')) return;
    event.preventDefault();
    event.stopPropagation();
    stream.releaseKeys();
    if (document.fullscreenElement) void document.exitFullscreen();
    leave();
  };
  return (
    <StreamPanel
      state={state}
      class="screen-panel"
      stream={stream}
      row={row}
      words={words}
      draws="screen"
      controls={controls}>
      {(parent, leave) => (
        <>
          <div
            class={stream.fits.value ? 'screen' : 'screen is-whole'}
            ref={parent}
            // Before the screen sees it, which keeps all keys for the guest.
            onKeyDownCapture={(event) => onKey(event, leave)}
          />
          <KeyBar
            isDisabled={stream.role !== 'writer'}
            keys={screenKeys.map(([label, says, stroke, withControl]) => ({
              label,
              says,
              press: () => stream.press(stroke, withControl),
            }))}
          />
        </>
      )}
    </StreamPanel>
  );
}

const screenshotMs = 20_000;

function Controls({ state, vm, row, stream }: StreamSideProps & { readonly stream: Screen }) {
  const take = () =>
    downloadScreenshot(vm).catch((error: unknown) => state.fail(`No picture of ${vm.name}: ${messageOf(error)}`));
  return (
    <>
      <Checkbox id="fit" label="Fit" is={stream.fits.value} onChange={(isChecked) => stream.setFits(isChecked)} />
      <button type="button" disabled={stream.role !== 'writer'} onClick={() => stream.sendCtrlAltDel()}>
        Ctrl+Alt+Del
      </button>
      <button type="button" onClick={() => void stream.fullScreen()}>
        {icon('full')}
        Full screen
      </button>
      <PasteButton
        isDisabled={stream.role !== 'writer'}
        hint="It is typed with the keys of a keyboard of the United States: the guest's layout has to be that one."
        problem={typingProblem}
        onPaste={(text) => stream.typeText(text)}
      />
      <button type="button" disabled={!row || !hasGuest(row)} onClick={() => void take()}>
        {icon('save')}
        Picture
      </button>
    </>
  );
}

async function downloadScreenshot(vm: Vm): Promise<void> {
  const picture = await screenshot(vm, AbortSignal.timeout(screenshotMs));
  const extension = picture.type.includes('png') ? 'png' : 'ppm';
  saveFile(picture, `${vm.name}-${new Date().toISOString().replace(/[:.]/g, '-')}.${extension}`);
}
