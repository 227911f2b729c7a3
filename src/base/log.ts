import { closeSync, openSync } from 'node:fs';
import { type Logger, pino } from 'pino';

export type { Logger } from 'pino';

export interface LogOptions {
  /** `component` field of every line: the program's name. */
  readonly component: string;
  /** KubeVirt's `-v` number: up to 2 is info, 3 and 4 debug, above that trace. */
  readonly verbosity?: number;
  /** Appends to this file instead of stdout. Its directory must be there. */
  readonly file?: string;
}

/**
 * JSON lines on stdout with upstream's keys (`level`, `timestamp`, `msg`, `component`).
 * stdout is opened again by path: pino's default on a pipe sleeps 100 ms on the main thread when 64 KiB are pending.
 */
export function createLogger(options: LogOptions): Logger {
  const settings = {
    base: { component: options.component },
    level: levelOf(options.verbosity ?? 2),
    messageKey: 'msg',
    timestamp: () => `,"timestamp":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return pino(settings, pino.destination({ dest: options.file ?? stdoutPath(), sync: true }));
}

/** A logger that writes nothing; for tests and as a default. */
export const silentLogger: Logger = pino({ enabled: false });

function levelOf(verbosity: number): string {
  if (verbosity <= 2) return 'info';
  return verbosity <= 4 ? 'debug' : 'trace';
}

/** A socket on stdout cannot be opened by path (ENXIO). */
function stdoutPath(): string | number {
  try {
    closeSync(openSync('/proc/self/fd/1', 'a'));
    return '/proc/self/fd/1';
  } catch {
    return 1;
  }
}
