import { openSync } from 'node:fs';
import { type Logger, pino } from 'pino';
import { LogDestination, type LostLines } from './log-destination.ts';
import { escapedJson } from './plain-text.ts';

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
 * stdout is opened again by path: Node.js may have made the descriptor itself one that does not wait for its reader.
 * Throws the system's error when `file` cannot be opened. No line that cannot be written ever ends the program: see `LogDestination`.
 */
export function createLogger(options: LogOptions): Logger {
  return createAdjustableLogger(options).log;
}

export interface AdjustableLogger {
  readonly log: Logger;
  /** For the logger and all children it has. */
  setVerbosity(verbosity: number): void;
}

/** As `createLogger`. A child of pino keeps the level its parent had when it was made: the living ones are known here. */
export function createAdjustableLogger(options: LogOptions): AdjustableLogger {
  const children = new Set<WeakRef<Logger>>();
  const gone = new FinalizationRegistry<WeakRef<Logger>>((reference) => children.delete(reference));
  const settings = {
    base: { component: options.component },
    level: levelOf(options.verbosity ?? 2),
    messageKey: 'msg',
    timestamp: () => `,"timestamp":"${now()}"`,
    // JSON leaves codes for terminals above ASCII, and marks that turn the writing, as they are.
    hooks: { streamWrite: escapedJson },
    formatters: { level: (label: string) => ({ level: label }) },
    onChild: (child: Logger) => {
      const reference = new WeakRef(child);
      children.add(reference);
      gone.register(child, reference);
    },
  };
  const fd = options.file === undefined ? stdoutDescriptor() : openSync(options.file, 'a');
  const log = pino(settings, new LogDestination(fd, lossTeller(options.component)));
  const setVerbosity = (verbosity: number) => {
    const level = levelOf(verbosity);
    log.level = level;
    for (const reference of children) {
      const child = reference.deref();
      if (child) child.level = level;
    }
  };
  return { log, setVerbosity };
}

/** A logger that writes nothing; for tests and as a default. */
export const silentLogger: Logger = pino({ enabled: false });

function levelOf(verbosity: number): string {
  if (verbosity <= 2) return 'info';
  return verbosity <= 4 ? 'debug' : 'trace';
}

/** In the words and with the keys of other lines. */
function lossTeller(component: string): (lost: LostLines) => string {
  return ({ count, firstMs, reason }) => {
    const lost = { lost: count, since: now(firstMs), reason };
    return `${JSON.stringify({ level: 'warn', timestamp: now(), component, ...lost, msg: 'lines of this log were lost' })}\n`;
  };
}

function now(ms = Date.now()): string {
  return new Date(ms).toISOString();
}

/** A socket on stdout cannot be opened by path (ENXIO). */
function stdoutDescriptor(): number {
  try {
    return openSync('/proc/self/fd/1', 'a');
  } catch {
    return 1;
  }
}
