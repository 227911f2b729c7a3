import { type FSWatcher, watch } from 'node:fs';
import { open, stat, truncate, writeFile } from 'node:fs/promises';
import { type Clock, errorMessage, type Logger } from '../../base/index.ts';

const maxLogBytes = 10 * 2 ** 20;
const tailBytes = 2048;
const tailLines = 20;

/** The last lines of a log: what kubelet gives as the message of a container that failed. */
export async function logTail(file: string): Promise<string> {
  const handle = await open(file, 'r').catch(() => undefined);
  if (!handle) return '';
  try {
    const { size } = await handle.stat();
    const buffer = Buffer.alloc(Math.min(size, tailBytes));
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, size - buffer.length);
    const lines = buffer.subarray(0, bytesRead).toString('utf8').trimEnd().split('\n');
    return lines.slice(-tailLines).join('\n');
  } finally {
    await handle.close();
  }
}

/**
 * Keeps the last `maxBytes` as one older part and begins anew: a program that writes a log may also make it terabytes long, which take no room
 * until they are copied. Writers append (O_APPEND), so they go on at the new end.
 */
export async function rotateLog(file: string, maxBytes = maxLogBytes): Promise<void> {
  const found = await stat(file).catch(() => undefined);
  if (!found || found.size <= maxBytes) return;
  const last = await lastPart(file, maxBytes);
  await truncate(file, 0);
  // Only now: a flooding writer goes on meanwhile.
  await writeFile(`${file}.1`, last, { mode: 0o600 });
}

async function lastPart(file: string, maxBytes: number): Promise<Buffer> {
  const handle = await open(file, 'r');
  try {
    const { size } = await handle.stat();
    const buffer = Buffer.allocUnsafe(Math.min(size, maxBytes));
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, size - buffer.length);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** Between two looks at a log that is written to. A pod in memory alone writes a gigabyte per second. */
const lookPauseMs = 20;

export interface LogKeeperDeps {
  readonly clock: Clock;
  readonly log: Logger;
}

/** Rotates logs while they grow: a pod that floods its log would fill the disk between two looks at the pod. */
export class LogKeeper {
  readonly #maxBytes: number;
  readonly #deps: LogKeeperDeps;
  /** File → ends what waits for its next change. */
  readonly #kept = new Map<string, () => void>();

  constructor({ maxBytes = maxLogBytes }: { readonly maxBytes?: number }, deps: LogKeeperDeps) {
    this.#maxBytes = maxBytes;
    this.#deps = deps;
  }

  /** From now on, until `forget`. Safe when it is kept already. */
  keep(file: string): void {
    if (!this.#kept.has(file)) this.#look(file);
  }

  forget(file: string): void {
    this.#kept.get(file)?.();
    this.#kept.delete(file);
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
    void rotateLog(file, this.#maxBytes)
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
            this.#deps.clock.schedule(lookPauseMs, () => this.#look(file)),
          );
      });
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
