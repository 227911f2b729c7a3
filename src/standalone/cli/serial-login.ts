import type { Duplex } from 'node:stream';
import { NodeError } from '../errors.ts';

/** More than a boot's worth of messages; only the end is looked at. */
const keptBytes = 4096;
const promptPattern = /login: ?$/;
/** A prompt printed before we connected is not repeated by itself: the Enter key makes it appear again. */
const knockMs = 500;

/** Waits until a guest shows its login prompt. Closes the console. Rejects with the signal's reason, or NO_CONSOLE when it is closed. */
export async function untilLogin(serial: Duplex, signal: AbortSignal): Promise<void> {
  let seen = '';
  const knock = setInterval(() => serial.write('\r'), knockMs);
  try {
    await new Promise<void>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      if (signal.aborted) reject(signal.reason);
      serial.on('data', (chunk: Buffer) => {
        seen = (seen + chunk.toString('latin1')).slice(-keptBytes);
        if (promptPattern.test(seen)) resolve();
      });
      serial.once('close', () => reject(new NodeError('NO_CONSOLE', 'the serial console was closed')));
      serial.once('error', reject);
    });
  } finally {
    clearInterval(knock);
    serial.destroy();
  }
}
