import { connect, type Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { errorCode } from '../../base/index.ts';
import type { SafePath } from '../../host/index.ts';
import { NodeError } from '../errors.ts';

/** Ctrl-]: as telnet and virsh console do it. */
const leaveKey = 0x1d;

/** Connects to `virt-serial0` in the directory; closes the directory. Throws NodeError NO_CONSOLE. */
export async function connectSerial(directory: SafePath): Promise<Socket> {
  // Node.js cuts socket paths after 107 bytes without a word: the way through /proc is always short.
  const socket = connect(`${directory.path}/virt-serial0`);
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    return socket;
  } catch (cause) {
    const missing = errorCode(cause) === 'ENOENT';
    throw new NodeError(
      'NO_CONSOLE',
      missing
        ? 'the VM has no serial console (autoattachSerialConsole: false?)'
        : `the serial console does not answer (${errorCode(cause)}): is the VM just ending?`,
      { cause },
    );
  } finally {
    directory.close();
  }
}

/** A terminal's input side: raw mode where it has one. */
export interface ConsoleInput extends Readable {
  readonly isTTY?: boolean;
  setRawMode?(on: boolean): unknown;
}

export interface ConsoleEnds {
  readonly input: ConsoleInput;
  readonly output: Writable;
}

export type ConsoleEnd = 'left' | 'closed';

/** After the end of piped input the guest may still answer; this long a silence says that it has done so. */
const quietMs = 1_000;

/**
 * Joins a terminal (or pipes) and a serial console until Ctrl-] is typed, the VM closes it, or piped input has ended and the
 * guest has fallen silent. `signal` leaves, too.
 */
export async function attachConsole(serial: Socket, ends: ConsoleEnds, signal: AbortSignal): Promise<ConsoleEnd> {
  const { input, output } = ends;
  let quiet: NodeJS.Timeout | undefined;
  const isRaw = input.isTTY === true && input.setRawMode !== undefined;
  if (isRaw) input.setRawMode?.(true);
  try {
    return await new Promise<ConsoleEnd>((resolve, reject) => {
      const leave = () => resolve('left');
      if (signal.aborted) leave();
      signal.addEventListener('abort', leave, { once: true });
      input.on('data', (chunk: Buffer | string) => {
        const bytes = Buffer.from(chunk);
        const at = bytes.indexOf(leaveKey);
        const sent = serial.write(at < 0 ? bytes : bytes.subarray(0, at));
        if (at >= 0) leave();
        else if (!sent) pauseUntilDrained(input, serial);
      });
      input.once('end', () => {
        quiet = setTimeout(leave, quietMs);
      });
      serial.on('data', (chunk) => {
        quiet?.refresh();
        if (!output.write(chunk)) pauseUntilDrained(serial, output);
      });
      serial.once('close', () => resolve('closed'));
      serial.once('error', reject);
      output.once('error', reject);
    });
  } finally {
    clearTimeout(quiet);
    if (isRaw) input.setRawMode?.(false);
    input.pause();
    serial.destroy();
  }
}

function pauseUntilDrained(source: Readable, target: Writable): void {
  source.pause();
  target.once('drain', () => source.resume());
}
