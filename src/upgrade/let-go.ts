import type { Duplex } from 'node:stream';
import type { Clock } from '../base/index.ts';

/** Longest time a client that was answered may keep its connection. */
const lingerMs = 2000;

/**
 * For a connection whose last bytes are written: Node.js' HTTP server no longer looks after it, so a client that does not hang
 * up would keep it for ever. What it still sends is thrown away, so that the answer is not lost to a reset.
 */
export function letGoSoon(socket: Duplex, clock: Clock): void {
  socket.on('error', () => socket.destroy());
  if (socket.destroyed) return;
  const cancel = clock.schedule(lingerMs, () => socket.destroy());
  socket.once('close', cancel);
  socket.resume();
}
