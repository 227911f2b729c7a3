import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { askStreaming, type Extent, mapCall, readCall, TunnelError } from '../nbd-tunnel/index.ts';
import { type Exchange, ExportError, type Handler } from './answer.ts';
import { requireGet } from './disk.ts';
import type { ExportedBackups } from './settings.ts';
import type { BackupTunnels } from './tunnels.ts';

/** Upstream's, unless a client asks for another. */
const defaultPage = 512;
/** Kept in memory until the page is whole. */
const longestPage = 100_000;

/** The bytes of a disk, from `offset` on, `length` of them; without these all. */
export function backupDataHandler(disk: string, tunnels: BackupTunnels): Handler {
  return asked(async (exchange) => {
    const { response, signal } = exchange;
    const place = placeIn(exchange);
    const chunks = askStreaming(tunnels.current(), readCall, { exportName: disk, ...place }, signal);
    for await (const { data } of chunks) {
      // What cannot be read at all is refused in words, not by an answer that is cut.
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'application/octet-stream' });
      await write(response, data, signal);
    }
    if (!response.headersSent) response.writeHead(200, { 'content-type': 'application/octet-stream' });
    response.end();
  });
}

/** Which parts of a disk are worth reading, a page of them at a time: of an incremental backup those that have changed. */
export function backupMapHandler(disk: string, { type, checkpoint }: ExportedBackups, tunnels: BackupTunnels): Handler {
  const bitmapName = type === 'Incremental' ? checkpoint : '';
  return asked(async (exchange) => {
    const { response, signal } = exchange;
    const limit = pageIn(exchange);
    const request = { exportName: disk, bitmapName, ...placeIn(exchange) };
    const extents: Extent[] = [];
    let next: number | null = null;
    for await (const { extents: some } of askStreaming(tunnels.current(), mapCall, request, signal)) {
      const room = limit - extents.length;
      extents.push(...some.slice(0, room));
      next = some[room]?.offset ?? null;
      if (next !== null) break;
    }
    const shown = extents.map(({ offset, length, flags, description }) => ({
      offset,
      length,
      type: flags,
      description,
    }));
    const body = Buffer.from(`${JSON.stringify({ extents: shown, next_offset: next })}\n`);
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
    response.end(body);
  });
}

/** What the launcher says against it is told in its words. */
function asked(handler: Handler): Handler {
  return async (exchange) => {
    requireGet(exchange);
    try {
      await handler(exchange);
    } catch (error) {
      if (!(error instanceof TunnelError)) throw error;
      const code = error.code === 'CLOSED' ? 'UNAVAILABLE' : 'NOT_SERVED';
      throw new ExportError(code, `the launcher does not give it: ${error.message}`, { cause: error });
    }
  };
}

async function write(response: ServerResponse, data: Uint8Array, signal: AbortSignal): Promise<void> {
  if (!response.write(data)) await once(response, 'drain', { signal });
}

function placeIn(exchange: Exchange): { readonly offset: number; readonly length: number } {
  return { offset: numberIn(exchange, 'offset', 0), length: numberIn(exchange, 'length', 0) };
}

function pageIn(exchange: Exchange): number {
  const page = numberIn(exchange, 'page_size', defaultPage);
  if (page > 0 && page <= longestPage) return page;
  throw new ExportError('BAD_REQUEST', `page_size ${page} is not from 1 to ${longestPage}`);
}

function numberIn({ request: { url = '' } }: Exchange, name: string, fallback: number): number {
  const at = url.indexOf('?');
  const text = at < 0 ? null : new URLSearchParams(url.slice(at)).get(name);
  if (text === null || text === '') return fallback;
  const value = Number(text);
  if (/^\d{1,19}$/.test(text) && Number.isSafeInteger(value)) return value;
  throw new ExportError('BAD_REQUEST', `${name} ${JSON.stringify(text.slice(0, 40))} is no number of bytes`);
}
