import type { VmChange, VmList } from '../rows.ts';
import { retryAfterMs, schedule } from './backoff.ts';
import type { PageState } from './page-state.ts';
import { CallError, vmEvents } from './server-calls.ts';

/** A page that is not seen gives its connection back after this long: browsers have few of them for one server. */
const hiddenMs = 60_000;
/** The server says something every 15 s. */
const silentMs = 45_000;

/** Keeps the state at what the server says. The returned function asks again at once, with another session say. */
export function followVms(state: PageState): () => void {
  let reading = new AbortController();
  let isOpen = false;
  let failures = 0;
  let cancelNext: (() => void) | undefined;

  const open = async () => {
    cancelNext?.();
    reading.abort();
    const current = new AbortController();
    reading = current;
    isOpen = true;
    const problem = await read(current).catch((error: unknown) => error);
    if (reading !== current) return;
    isOpen = false;
    const isDenied = problem instanceof CallError && [401, 403].includes(problem.httpStatus);
    if (isDenied) state.link.value = { kind: 'denied', reason: problem.message };
    else if (state.link.value.kind !== 'denied') {
      state.link.value = { kind: state.isLoaded.value ? 'lost' : 'connecting' };
    }
    cancelNext = schedule(retryAfterMs(failures++, Math.random()), open);
  };

  const read = async (current: AbortController) => {
    const body = await vmEvents(current.signal);
    let cancelWatchdog: (() => void) | undefined;
    const bytes = () => {
      cancelWatchdog?.();
      cancelWatchdog = schedule(silentMs, () => current.abort());
    };
    bytes();
    const event = (name: string, data: string) => {
      failures = 0;
      if (name === 'vms') state.replace(JSON.parse(data) as VmList);
      else if (name === 'change') state.change(JSON.parse(data) as VmChange);
    };
    await readEvents(body, { event, bytes }).finally(() => cancelWatchdog?.());
  };

  const giveBack = () => {
    const given = reading;
    // Nothing comes of it any more, and nothing is tried again.
    reading = new AbortController();
    isOpen = false;
    given.abort();
  };

  document.addEventListener('visibilitychange', () => {
    cancelNext?.();
    if (document.hidden) cancelNext = schedule(hiddenMs, giveBack);
    else if (!isOpen) void open();
  });
  void open();
  return () => void open();
}

/**
 * Reads server-sent events until the stream ends. Not the browser's EventSource, which can be given no header, so that a secret
 * would have to stand in its address. `onBytes`: something came, be it a comment.
 */
async function readEvents(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  on: { readonly event: (name: string, data: string) => void; readonly bytes: () => void },
): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    on.bytes();
    const parts = (text + value).split('\n\n');
    text = parts.pop() ?? '';
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part)?.[1];
      const data = /^data: (.*)$/m.exec(part)?.[1];
      if (name !== undefined && data !== undefined) on.event(name, data);
    }
  }
}
