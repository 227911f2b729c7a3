import type { Duplex, Readable, Writable } from 'node:stream';
import { errorCode, systemClock } from '../../base/index.ts';
import type { ConsoleRole } from '../../web/index.ts';
import { NodeError } from '../errors.ts';
import { PipedLines } from './piped-lines.ts';

/** Ctrl-]: as telnet and virsh console do it. */
const leaveKey = 0x1d;
/** Ctrl-T, only while another one has taken the console over. */
const takeBackKey = 0x14;

/** A terminal's input side: raw mode where it has one. */
export interface ConsoleInput extends Readable {
  readonly isTTY?: boolean;
  setRawMode?(on: boolean): unknown;
}

export interface ConsoleEnds {
  readonly input: ConsoleInput;
  readonly output: Writable;
  /** Lines about the session, beside the guest's output. */
  readonly report: (line: string) => void;
}

/** A `ConsoleStream`, which reports its role in event `role`, and in `past` what it does not show again; or any other byte stream. */
export interface SerialLine extends Duplex {
  takeOver?(): void;
}

export interface AttachOptions {
  /** Keys go nowhere, and the end of the input ends nothing. */
  readonly viewOnly: boolean;
  /** Piped input is given a line at a time, each when the guest waits for one. Nothing at a terminal. */
  readonly byPrompt?: boolean;
}

export type ConsoleEnd = 'left' | 'closed';

/** After the end of piped input the guest may still answer; this long a silence says that it has done so. */
const quietMs = 1_000;

/**
 * Joins a terminal (or pipes) and a serial console until Ctrl-] is typed, the VM closes it, nobody reads the output any more, or
 * piped input has ended and the guest has fallen silent. Who looks on needs no input, as `tail -f` needs none: a service or a
 * job in the background has none and still logs the console. `signal` leaves, too. Who is taken over at a terminal looks on; piped input has nobody who could
 * decide, so it ends with NodeError NO_CONSOLE.
 */
export async function attachConsole(
  serial: SerialLine,
  ends: ConsoleEnds,
  { viewOnly, byPrompt = false }: AttachOptions,
  signal: AbortSignal,
): Promise<ConsoleEnd> {
  const { input, output, report } = ends;
  const isTerminal = input.isTTY === true && input.setRawMode !== undefined;
  let quiet: NodeJS.Timeout | undefined;
  let isTakenOver = false;
  let lines: PipedLines | undefined;
  if (isTerminal) input.setRawMode?.(true);
  try {
    return await new Promise<ConsoleEnd>((resolve, reject) => {
      const leave = () => resolve('left');
      if (signal.aborted) leave();
      signal.addEventListener('abort', leave, { once: true });
      if (byPrompt && !isTerminal && !viewOnly) {
        const send = (bytes: Buffer) => void serial.write(bytes);
        const given = new PipedLines({ clock: systemClock, send, report, done: leave });
        lines = given;
        serial.on('past', (bytes: Buffer) => given.saw(bytes));
      }
      input.on('data', (chunk: Buffer | string) => {
        const bytes = Buffer.from(chunk);
        const at = bytes.indexOf(leaveKey);
        if (isTakenOver && bytes.includes(takeBackKey)) serial.takeOver?.();
        else if (lines) lines.push(at < 0 ? bytes : bytes.subarray(0, at));
        else if (!viewOnly && !isTakenOver) sendKeys(input, serial, at < 0 ? bytes : bytes.subarray(0, at));
        if (at >= 0) leave();
      });
      input.once('end', () => {
        if (lines) lines.end();
        else if (!viewOnly) quiet = setTimeout(leave, quietMs);
      });
      serial.on('role', (role: ConsoleRole, reason: string) => {
        isTakenOver = role === 'viewer';
        if (!isTakenOver) report('you type again');
        else if (isTerminal)
          report(`${reason || 'somebody else took over'}: you look on; Ctrl-T takes it back, Ctrl-] leaves`);
        else reject(new NodeError('NO_CONSOLE', reason || 'somebody else took the console over'));
      });
      serial.on('data', (chunk) => {
        quiet?.refresh();
        lines?.saw(chunk);
        if (!output.write(chunk)) pauseUntilDrained(serial, output);
      });
      serial.once('close', () => resolve('closed'));
      serial.once('error', reject);
      // Stays: what was on its way fails after the first one.
      output.on('error', (error) => (errorCode(error) === 'EPIPE' ? leave() : reject(error)));
    });
  } finally {
    clearTimeout(quiet);
    lines?.stop();
    if (isTerminal) input.setRawMode?.(false);
    input.pause();
    serial.destroy();
  }
}

/** What is said when it is joined. Without a terminal no key leaves. */
export function consoleGreeting({
  namespace,
  name,
  viewOnly,
  isTerminal,
}: AttachOptions & { readonly namespace: string; readonly name: string; readonly isTerminal: boolean }): string {
  const of = `${namespace}/${name}`;
  if (!viewOnly) return `connected: ${of}, press Enter for a prompt; Ctrl-] leaves`;
  if (isTerminal) return `looking on: ${of}; Ctrl-] leaves`;
  return `looking on: ${of}, until it ends, Ctrl-C, or nobody reads the output any more`;
}

/** An empty rest, before the key that leaves, is not sent. */
function sendKeys(input: Readable, serial: Duplex, bytes: Buffer): void {
  if (bytes.length > 0 && !serial.write(bytes)) pauseUntilDrained(input, serial);
}

function pauseUntilDrained(source: Readable, target: Writable): void {
  source.pause();
  target.once('drain', () => source.resume());
}
