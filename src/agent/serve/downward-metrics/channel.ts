import { once } from 'node:events';
import type { Socket } from 'node:net';
import { type Clock, sleep } from '../../../base/index.ts';
import { ChannelRequests } from './requests.ts';

const invalidRequest = 'INVALID REQUEST\n\n';
/** A guest may ask as often as it likes; more than this it is not answered, and what it writes waits in its own device. */
const minIntervalMs = 1_000;

export interface ChannelDeps {
  /** The document. Never rejects, unless the signal says so. */
  readonly report: (signal: AbortSignal) => Promise<string>;
  readonly clock: Clock;
}

/**
 * Answers a guest's requests one after the other until QEMU closes the connection or the signal ends it. Nothing is read while an
 * answer is made or has not been taken, so that no guest can make the agent hold more than one request and one answer.
 */
export async function serveChannel(socket: Socket, { report, clock }: ChannelDeps, signal: AbortSignal): Promise<void> {
  const end = () => socket.destroy();
  signal.addEventListener('abort', end, { once: true });
  // Neither a pause nor an answer that is not taken outlives the connection.
  const closing = new AbortController();
  socket.once('close', () => closing.abort());
  const gone = AbortSignal.any([signal, closing.signal]);
  const requests = new ChannelRequests();
  let earliestMs = 0;
  try {
    for await (const chunk of socket) {
      requests.push(chunk);
      for (let request = requests.next(); request !== undefined; request = requests.next()) {
        const waitMs = earliestMs - clock.monotonicMs();
        if (waitMs > 0) await sleep(waitMs, gone, clock);
        earliestMs = clock.monotonicMs() + minIntervalMs;
        const answer = request === 'figures' ? `${await report(gone)}\n\n` : invalidRequest;
        if (!socket.write(answer)) await once(socket, 'drain', { signal: gone });
      }
    }
  } catch (error) {
    // It is gone one way or the other: QEMU ended, or the agent leaves.
    if (!socket.destroyed && !signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', end);
    socket.destroy();
  }
}
