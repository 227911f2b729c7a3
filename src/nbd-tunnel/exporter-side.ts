import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2';
import type { Duplex } from 'node:stream';
import { errorMessage } from '../base/index.ts';
import { TunnelError } from './errors.ts';
import { FrameReader, frameOf, textOfHeader } from './grpc-frames.ts';
import type { StreamingCall } from './messages.ts';
import { tunnelSettings } from './settings.ts';

/** The connection within `stream`, on which the launcher is asked. */
export function openTunnel(stream: Duplex): ClientHttp2Session {
  const { settings, maxSessionMemory, connectionWindowBytes } = tunnelSettings;
  const session = connect('http://backup', { createConnection: () => stream, settings, maxSessionMemory });
  session.once('connect', () => {
    if (!session.destroyed) session.setLocalWindowSize(connectionWindowBytes);
  });
  return session;
}

/** The answers of one call, as they come. Throws TunnelError, and the reason of the signal. */
export async function* askStreaming<Request, Answer>(
  session: ClientHttp2Session,
  call: StreamingCall<Request, Answer>,
  request: Request,
  signal: AbortSignal,
): AsyncGenerator<Answer> {
  signal.throwIfAborted();
  const stream = asked(session, call.path);
  let ends: IncomingHttpHeaders = {};
  const note = (headers: IncomingHttpHeaders) => {
    ends = { ...ends, ...headers };
  };
  stream.on('response', note);
  stream.on('trailers', note);
  const abort = () => stream.destroy(new TunnelError('CUT', errorMessage(signal.reason)));
  signal.addEventListener('abort', abort, { once: true });
  try {
    stream.end(frameOf(call.request.encode(request)));
    const frames = new FrameReader();
    for await (const piece of stream) for (const message of frames.push(piece)) yield call.answer.decode(message);
    checkEnd(ends, frames);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof TunnelError) throw error;
    throw new TunnelError('CUT', `the launcher ended the connection: ${errorMessage(error)}`, { cause: error });
  } finally {
    signal.removeEventListener('abort', abort);
    // Whoever does not read to the end wants no more.
    if (!stream.closed) stream.close(constants.NGHTTP2_CANCEL);
  }
}

/** Throws TunnelError CLOSED. */
function asked(session: ClientHttp2Session, path: string): ClientHttp2Stream {
  try {
    return session.request({
      ...{ ':method': constants.HTTP2_METHOD_POST, ':path': path, ':scheme': 'http', ':authority': 'backup' },
      ...{ 'content-type': 'application/grpc', te: 'trailers' },
    });
  } catch (error) {
    throw new TunnelError('CLOSED', `the connection to the launcher is ending: ${errorMessage(error)}`, {
      cause: error,
    });
  }
}

function checkEnd(ends: IncomingHttpHeaders, frames: FrameReader): void {
  const status = ends['grpc-status'];
  if (status === undefined) throw new TunnelError('CUT', 'the launcher ended an answer before it was whole');
  const message = textOfHeader(ends['grpc-message']);
  if (status !== '0') throw new TunnelError('REFUSED', message || `the launcher answers with gRPC status ${status}`);
  if (frames.isTorn) throw new TunnelError('BROKEN', 'the last message of an answer is torn');
}
