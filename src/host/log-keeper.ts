import { constants, type FSWatcher, fstatSync, ftruncateSync, readSync, watch } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import path from 'node:path';
import { type Clock, errorCode, errorMessage, type Logger } from '../base/index.ts';
import { type NotedTime, noteTime } from './log-times.ts';
import { lastBytes, openPlainFile, readText } from './plain-file.ts';

const usualLogBytes = 10 * 2 ** 20;
/** Of a record of how much was taken away from a log. */
const maxDigits = 15;
/** Who writes the log may be another user, who must not lead the writer of its older part elsewhere. */
const partFlags =
  constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW | constants.O_NONBLOCK;

interface RotateOptions {
  /** Of the log, and of its older part. */
  readonly maxBytes?: number;
  /** Keeps count, in `<file>.start`, of the bytes that were taken away: the place of a byte in all that was ever written stays known. */
  readonly counts?: boolean;
}

/**
 * Keeps the last `maxBytes` as one older part, `<file>.1`, and begins anew: a program that writes a log may also make it terabytes long, which
 * take no room until they are copied. Writers append (O_APPEND), so they go on at the new end.
 */
export async function rotateLog(file: string, { maxBytes = usualLogBytes, counts }: RotateOptions = {}): Promise<void> {
  const handle = await openForRotation(file);
  if (!handle) return;
  try {
    const found = await handle.stat();
    if (!found.isFile() || found.size <= maxBytes) return;
    const { size, bytes } = await lastBytes(handle, maxBytes);
    const taken = takeAll(handle.fd, size, maxBytes);
    // Only now: a flooding writer goes on meanwhile.
    await writePart(`${file}.1`, Buffer.concat([bytes, taken.later]).subarray(-maxBytes));
    if (counts) await writePart(`${file}.start`, Buffer.from(String((await readLogStart(file)) + taken.size)));
  } finally {
    await handle.close();
  }
}

/** Empties the log, and gives what was written to it after it had `known` bytes. At one go: what a writer appends before the end of this is lost. */
function takeAll(fd: number, known: number, maxBytes: number): { readonly size: number; readonly later: Buffer } {
  const { size } = fstatSync(fd);
  const later = Buffer.alloc(Math.min(Math.max(size - known, 0), maxBytes));
  readSync(fd, later, 0, later.length, size - later.length);
  ftruncateSync(fd, 0);
  return { size, later };
}

/** How many bytes were taken away from the beginning of a log whose rotation `counts`. */
export async function readLogStart(file: string): Promise<number> {
  const text = await openPlainFile(`${file}.start`)
    .then((handle) => readText(handle, maxDigits).finally(() => handle.close()))
    .catch(() => '');
  return parseLogStart(text);
}

/** What `<file>.start` says; 0 for what is none. */
export function parseLogStart(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

async function openForRotation(file: string): Promise<FileHandle | undefined> {
  try {
    return await open(file, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function writePart(file: string, bytes: Buffer): Promise<void> {
  const handle = await open(file, partFlags, 0o600);
  try {
    await handle.write(bytes);
  } finally {
    await handle.close();
  }
}

/** Between two looks at a log that is written to. A pod in memory alone writes a gigabyte per second. */
const usualPauseMs = 20;

interface LogKeeperOptions extends RotateOptions {
  /** Between two looks at a log that is written to. */
  readonly pauseMs?: number;
  /** Notes beside each log when it had how many bytes (`readLogTimes`). */
  readonly notesTimes?: boolean;
}

export interface LogKeeperDeps {
  readonly clock: Clock;
  readonly log: Logger;
}

/** Rotates logs while they grow: a pod that floods its log would fill the disk between two looks at the pod. */
export class LogKeeper {
  readonly #options: LogKeeperOptions;
  readonly #deps: LogKeeperDeps;
  /** File → ends what waits for its next change. */
  readonly #kept = new Map<string, () => void>();
  readonly #times = new Map<string, NotedTime>();

  constructor(options: LogKeeperOptions, deps: LogKeeperDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** From now on, until `forget`. Safe when it is kept already. */
  keep(file: string): void {
    if (!this.#kept.has(file)) this.#look(file);
  }

  forget(file: string): void {
    this.#kept.get(file)?.();
    this.#kept.delete(file);
    this.#times.delete(file);
  }

  /** Of all logs in a directory. */
  forgetBelow(dir: string): void {
    for (const file of [...this.#kept.keys()]) if (path.dirname(file) === dir) this.forget(file);
  }

  forgetAll(): void {
    for (const file of [...this.#kept.keys()]) this.forget(file);
  }

  /** Then waits for a change, also one during the look; a flood has many, so the next look is a moment after it. */
  #look(file: string): void {
    let isOver = false;
    this.#kept.set(file, () => {
      isOver = true;
    });
    const watching = this.#watch(file);
    const change = watching && new Promise<void>((resolve) => watching.once('change', resolve).once('error', resolve));
    void this.#tidy(file)
      .catch((error: unknown) => this.#deps.log.warn({ file, reason: errorMessage(error) }, 'a log cannot be rotated'))
      .then(async () => {
        if (isOver || !watching) return;
        this.#kept.set(file, () => {
          isOver = true;
          watching.close();
        });
        await change;
      })
      .then(() => {
        watching?.close();
        if (isOver) return;
        // What cannot be watched is kept again by the next look at the pod.
        if (!watching) this.#kept.delete(file);
        else
          this.#kept.set(
            file,
            this.#deps.clock.schedule(this.#options.pauseMs ?? usualPauseMs, () => this.#look(file)),
          );
      });
  }

  async #tidy(file: string): Promise<void> {
    await rotateLog(file, this.#options);
    if (!this.#options.notesTimes) return;
    const noted = await noteTime(file, this.#deps.clock.now().getTime(), this.#times.get(file));
    if (noted && this.#kept.has(file)) this.#times.set(file, noted);
  }

  #watch(file: string): FSWatcher | undefined {
    try {
      const watching = watch(file, { persistent: false });
      watching.on('error', () => undefined);
      return watching;
    } catch {
      return undefined;
    }
  }
}
