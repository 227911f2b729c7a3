import { signal } from '@preact/signals';
import type { VmRow } from '../rows.ts';
import { schedule } from './backoff.ts';
import { Checkbox, icon } from './elements.tsx';
import { useOwned } from './owned.ts';
import type { GuestScreen } from './screen.ts';
import { type ScreenDeps, ScreenSession, type ScreenState } from './screen-session.ts';
import { streamUrl, type Vm, whyRefused } from './server-calls.ts';
import { Stream, type StreamState } from './stream.ts';
import { StreamPanel } from './stream-panel.tsx';

class Screen extends Stream {
  readonly fits = signal(true);
  #parent: HTMLElement | undefined;
  #guest: GuestScreen | undefined;

  protected async prepare(parent: HTMLElement): Promise<ScreenSession | undefined> {
    const { GuestScreen } = await import('./screen.ts');
    if (this.hasClosed) return undefined;
    this.#parent = parent;
    return new ScreenSession({
      state: (state) => {
        this.state.value = streamState(state);
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
export function ScreenPanel({ vm, row }: { readonly vm: Vm; readonly row: VmRow | undefined }) {
  const stream = useOwned(() => new Screen(vm));
  const controls = <Controls stream={stream} />;
  const onKey = (event: KeyboardEvent, leave: () => void) => {
    if (!(event.ctrlKey && event.altKey && event.key === 'Escape')) return;
    event.preventDefault();
    event.stopPropagation();
    stream.releaseKeys();
    if (document.fullscreenElement) void document.exitFullscreen();
    leave();
  };
  return (
    <StreamPanel class="screen-panel" stream={stream} row={row} words={words} draws="screen" controls={controls}>
      {(parent, leave) => (
        <div
          class={stream.fits.value ? 'screen' : 'screen is-whole'}
          ref={parent}
          // Before the screen sees it, which keeps all keys for the guest.
          onKeyDownCapture={(event) => onKey(event, leave)}
        />
      )}
    </StreamPanel>
  );
}

function Controls({ stream }: { readonly stream: Screen }) {
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
    </>
  );
}
