import type { VmChange, VmList } from '../rows.ts';
import { retryAfterMs } from './backoff.ts';
import { listStatus } from './server-calls.ts';
import type { Store } from './store.ts';

/** A page that nobody sees gives its connection back after this long: browsers have few of them for one server. */
const hiddenMs = 60_000;

/** Keeps the store at what the server says. */
export function followVms(store: Store): void {
  let source: EventSource | undefined;
  let failures = 0;
  let timer: number | undefined;

  const open = () => {
    clearTimeout(timer);
    source?.close();
    const events = new EventSource('/api/vms/events');
    source = events;
    events.addEventListener('vms', ({ data }) => {
      failures = 0;
      store.replace(JSON.parse(data) as VmList);
    });
    events.addEventListener('change', ({ data }) => store.change(JSON.parse(data) as VmChange));
    events.onerror = () => {
      store.setLink(store.isLoaded ? 'lost' : 'connecting');
      // A connection that broke is opened again by the browser; an answer that is no stream ends it for good.
      if (events.readyState === EventSource.CLOSED) void refused();
    };
  };

  const refused = async () => {
    const status = await listStatus().catch(() => 0);
    if (status === 401 || status === 403) store.setLink('denied');
    timer = setTimeout(open, retryAfterMs(failures++, Math.random()));
  };

  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => source?.close(), hiddenMs);
    else if (source?.readyState === EventSource.CLOSED) open();
  });
  open();
}
