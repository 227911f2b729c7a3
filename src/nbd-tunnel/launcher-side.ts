import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { Duplex } from 'node:stream';
import { errorMessage } from '../base/index.ts';
import { TunnelError } from './errors.ts';
import { FrameReader, frameOf, headerText } from './grpc-frames.ts';
import { type DataChunk, type MapAnswer, type MapRequest, mapCall, type ReadRequest, readCall } from './messages.ts';
import { tunnelSettings } from './settings.ts';

/** `give` resolves when there is room for more; `signal`: nobody wants it any more. */
type Handler<Request, Answer> = (
  request: Request,
  give: (answer: Answer) => Promise<void>,
  signal: AbortSignal,
) => Promise<void>;

export interface TunnelHandlers {
  readonly map: Handler<MapRequest, MapAnswer>;
  readonly read: Handler<ReadRequest, DataChunk>;
}

/** gRPC's numbers. */
const codes = { OK: 0, UNKNOWN: 2, INVALID_ARGUMENT: 3, UNIMPLEMENTED: 12 } as const;

/** A name and some numbers. */
const longestRequest = 64 * 1024;

/** Answers the calls that come in `stream`; resolves when it has ended. */
export async function serveTunnel(stream: Duplex, { map, read }: TunnelHandlers): Promise<void> {
  const { settings, maxSessionMemory } = tunnelSettings;
  const server = createServer({ settings, maxSessionMemory });
  const calls: Readonly<Record<string, (asked: ServerHttp2Stream) => Promise<void>>> = {
    [mapCall.path]: (asked) => answer(asked, mapCall, map),
    [readCall.path]: (asked) => answer(asked, readCall, read),
  };
  // Whatever goes wrong with one call costs that call alone.
  server.on('stream', (asked, headers) => void handle(asked, headers, calls).catch(() => asked.destroy()));
  server.on('sessionError', () => stream.destroy());
  server.emit('connection', stream);
  try {
    if (!stream.closed) await once(stream, 'close');
  } finally {
    server.close();
  }
}

async function handle(
  asked: ServerHttp2Stream,
  { ':path': path = '', ':method': method, 'content-type': type = '' }: IncomingHttpHeaders,
  calls: Readonly<Record<string, (asked: ServerHttp2Stream) => Promise<void>>>,
): Promise<void> {
  asked.on('error', () => undefined);
  // Asked and taken back in one piece: there is nobody to answer.
  if (asked.destroyed || asked.closed) return;
  if (method !== 'POST' || !type.startsWith('application/grpc')) {
    asked.respond({ ':status': 415 }, { endStream: true });
    return;
  }
  const end = { code: codes.OK as number, message: '' };
  asked.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  asked.once('wantTrailers', () => {
    const { code, message } = end;
    asked.sendTrailers({ 'grpc-status': String(code), ...(message && { 'grpc-message': headerText(message) }) });
  });
  try {
    const call = Object.hasOwn(calls, path) ? calls[path] : undefined;
    if (call) await call(asked);
    else Object.assign(end, { code: codes.UNIMPLEMENTED, message: `${path} is no call of kubevirt.nbd.NBD` });
  } catch (error) {
    const isBroken = error instanceof TunnelError && error.code === 'BROKEN';
    Object.assign(end, { code: isBroken ? codes.INVALID_ARGUMENT : codes.UNKNOWN, message: errorMessage(error) });
  }
  asked.end();
}

async function answer<Request, Answer>(
  asked: ServerHttp2Stream,
  call: {
    readonly request: { decode(bytes: Uint8Array): Request };
    readonly answer: { encode(answer: Answer): Uint8Array };
  },
  handler: Handler<Request, Answer>,
): Promise<void> {
  const gone = new AbortController();
  asked.once('close', () => gone.abort(new TunnelError('CUT', 'the reader has gone')));
  const request = call.request.decode(await requestOf(asked));
  const give = async (message: Answer) => {
    gone.signal.throwIfAborted();
    if (!asked.write(frameOf(call.answer.encode(message)))) await once(asked, 'drain', { signal: gone.signal });
  };
  await handler(request, give, gone.signal);
}

async function requestOf(asked: ServerHttp2Stream): Promise<Uint8Array> {
  const frames = new FrameReader();
  let bytes = 0;
  let found: Uint8Array | undefined;
  // Else what is thrown here would take the answer with it.
  for await (const piece of asked.iterator({ destroyOnReturn: false })) {
    bytes += piece.length;
    if (bytes > longestRequest) throw new TunnelError('BROKEN', 'a request is too long');
    for (const message of frames.push(piece)) found ??= message;
  }
  if (!found) throw new TunnelError('BROKEN', 'a request has no message');
  return found;
}
