import type { Duplex } from 'node:stream';
import { CodedError } from '../base/index.ts';

/** `ENDED`: the other side closed before its line was whole; `TOO_LONG`. */
export class FirstLineError extends CodedError<'ENDED' | 'TOO_LONG'> {}

/**
 * The first line that the other side of a stream says, without its end, as Latin-1 has no wrong bytes; what follows it can be read from the stream, which is paused. Rejects with
 * FirstLineError, with the stream's own error, or with the reason of the signal.
 */
export function readFirstLine(stream: Duplex, maxBytes: number, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    let read = Buffer.alloc(0);
    const settle = (done: () => void) => {
      stream.off('data', onData).off('end', onEnd).off('close', onEnd).off('error', onError);
      signal.removeEventListener('abort', onAbort);
      stream.pause();
      done();
    };
    const onAbort = () => settle(() => reject(signal.reason));
    const onError = (error: Error) => settle(() => reject(error));
    const onEnd = () => settle(() => reject(new FirstLineError('ENDED', 'the other side closed the connection')));
    const onData = (chunk: Buffer) => {
      read = Buffer.concat([read, chunk]);
      const end = read.indexOf('\n');
      if (end > maxBytes || (end < 0 && read.length > maxBytes)) {
        settle(() => reject(new FirstLineError('TOO_LONG', `a line has more than ${maxBytes} bytes`)));
      } else if (end >= 0) {
        settle(() => {
          if (end + 1 < read.length) stream.unshift(read.subarray(end + 1));
          resolve(read.toString('latin1', 0, end));
        });
      }
    };
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    stream.on('data', onData).once('end', onEnd).once('close', onEnd).once('error', onError);
  });
}
