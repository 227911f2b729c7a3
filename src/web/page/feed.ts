import type { VmChange, VmList } from '../rows.ts';
import { retryAfterMs } from './backoff.ts';
import { readEvents } from './event-stream.ts';
import { CallError, vmEvents } from './server-calls.ts';
import type { Store } from './store.ts';

/** A page that nobody sees gives its connection back after this long: browsers have few of them for one server. */
const hiddenMs = 60_000;
/** The server says something every 15 s. */
const silentMs = 45_000;

/** Keeps the store at what the server says. The returned function asks again at once, with another session say. */
export function followVms(store: Store): () => void {
  let reading = new AbortController();
  let isOpen = false;
  let failures = 0;
  let timer: number | undefined;

  const open = async () => {
    clearTimeout(timer);
    reading.abort();
    const current = new AbortController();
    reading = current;
    isOpen = true;
    const problem = await read(current).catch((error: unknown) => error);
    if (reading !== current) return;
    isOpen = false;
    const isDenied = problem instanceof CallError && [401, 403].includes(problem.httpStatus);
    if (isDenied) store.deny(problem.message);
    else if (store.link !== 'denied') store.setLink(store.isLoaded ? 'lost' : 'connecting');
    timer = setTimeout(open, retryAfterMs(failures++, Math.random()));
  };

  const read = async (current: AbortController) => {
    const body = await vmEvents(current.signal);
    let watchdog: number | undefined;
    const bytes = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => current.abort(), silentMs);
    };
    bytes();
    const event = (name: string, data: string) => {
      failures = 0;
      if (name === 'vms') store.replace(JSON.parse(data) as VmList);
      else if (name === 'change') store.change(JSON.parse(data) as VmChange);
    };
    await readEvents(body, { event, bytes }).finally(() => clearTimeout(watchdog));
  };

  const giveBack = () => {
    const given = reading;
    // Nothing comes of it any more, and nothing is tried again.
    reading = new AbortController();
    isOpen = false;
    given.abort();
  };

  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(giveBack, hiddenMs);
    else if (!isOpen) void open();
  });
  void open();
  return () => void open();
}
