import { existsSync, type FSWatcher, watch } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import path from 'node:path';
import { backoffDelayMs, type Clock, type Component, errorCode, errorMessage, type Logger } from '../base/index.ts';
import { type ChangingValue, SettableValue } from './changing-value.ts';
import { TlsInputError } from './errors.ts';
import { type KeyPair, readKeyPair } from './key-pair.ts';

export interface KeyPairPaths {
  readonly certFile: string;
  readonly keyFile: string;
}

/** The first, where its certificate is there, else the second. To be asked each time: a secret may come later. */
export function firstPairThere(first: KeyPairPaths, second: KeyPairPaths): KeyPairPaths {
  return existsSync(first.certFile) ? first : second;
}

export interface KeyPairFilesDeps {
  readonly log: Logger;
  readonly clock: Clock;
}

/** Files are read again this often even when no change was reported. */
const pollMs = 60_000;
/** A program that writes two files, or swaps a link, is given this long to end it. */
const settleMs = 50;
const retry = { baseMs: 250, maxMs: pollMs };
const maxBytes = 1024 * 1024;

/**
 * A key pair that follows its two files, as upstream's does (pkg/certificates/bootstrap/cert-manager.go): their directories are
 * watched, and read again each minute for those that cannot be. What is torn, does not match or is missing leaves the old pair in
 * use and is tried again soon.
 */
export class KeyPairFiles implements ChangingValue<KeyPair>, Component {
  readonly name = 'key pair';
  readonly #paths: KeyPairPaths;
  readonly #deps: KeyPairFilesDeps;
  readonly #value = new SettableValue<KeyPair>(undefined, (a, b) => a.cert === b.cert && a.key === b.key);
  readonly #watched = new Map<string, { readonly watcher: FSWatcher; readonly identity: string }>();
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  #hasNews = false;
  #wake: (() => void) | undefined;
  #failures = 0;
  #problem: string | undefined;

  constructor(paths: KeyPairPaths, deps: KeyPairFilesDeps) {
    this.#paths = paths;
    this.#deps = deps;
  }

  get current(): KeyPair | undefined {
    return this.#value.current;
  }

  /** Why the files cannot be used now. Undefined: they can. */
  get problem(): string | undefined {
    return this.#problem;
  }

  onChange(listener: () => void): () => void {
    return this.#value.onChange(listener);
  }

  /** Resolves after the first try, whatever came of it. */
  async start(): Promise<void> {
    await this.#reload();
    this.#loop ??= this.#follow(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('key pair files are not followed any more'));
    this.#wake?.();
    await this.#loop;
    for (const { watcher } of this.#watched.values()) watcher.close();
    this.#watched.clear();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#wait(this.#failures === 0 ? pollMs : backoffDelayMs(this.#failures, retry), () => this.#hasNews);
      if (this.#hasNews) await this.#wait(settleMs, () => false);
      if (!signal.aborted) await this.#reload();
    }
  }

  /** Ends early when woken and `isEnough`. */
  #wait(ms: number, isEnough: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        cancel();
        this.#wake = undefined;
        resolve();
      };
      const cancel = this.#deps.clock.schedule(ms, end);
      this.#wake = () => {
        if (isEnough() || this.#stopping.signal.aborted) end();
      };
      this.#wake();
    });
  }

  /** Watched before it is read: what changes in between is read again. */
  async #reload(): Promise<void> {
    const { certFile, keyFile } = this.#paths;
    for (const directory of new Set([certFile, keyFile].map((file) => path.dirname(file))))
      await this.#watch(directory);
    this.#hasNews = false;
    try {
      const [cert, key] = await Promise.all([readSmall(certFile), readSmall(keyFile)]);
      const pair = readKeyPair(cert, key);
      if (this.#problem !== undefined && this.current) {
        this.#deps.log.info({ certFile }, 'the key pair can be read again');
      }
      this.#failures = 0;
      this.#problem = undefined;
      this.#value.set(pair);
    } catch (error) {
      this.#failed(errorMessage(error));
    }
  }

  /** One failure is common while the files are written. Before the first pair it is the TLS context that logs what it waits for. */
  #failed(reason: string): void {
    this.#failures++;
    const isNew = reason !== this.#problem || this.#failures === 2;
    this.#problem = reason;
    if (!isNew || this.#failures < 2 || !this.current) return;
    const { certFile, keyFile } = this.#paths;
    this.#deps.log.warn({ certFile, keyFile, reason }, 'the new key pair cannot be used; the old one serves on');
  }

  /** A directory that was replaced is another one, whose watcher never speaks again. */
  async #watch(directory: string): Promise<void> {
    const identity = await stat(directory)
      .then(({ dev, ino }) => `${dev}:${ino}`)
      .catch(() => undefined);
    const known = this.#watched.get(directory);
    if (known && known.identity === identity) return;
    known?.watcher.close();
    this.#watched.delete(directory);
    if (identity === undefined || this.#stopping.signal.aborted) return;
    try {
      const watcher = watch(directory, () => this.#changed());
      watcher.on('error', (error) => {
        this.#deps.log.debug({ directory, reason: errorMessage(error) }, 'a directory cannot be watched any more');
        watcher.close();
        this.#watched.delete(directory);
      });
      this.#watched.set(directory, { watcher, identity });
    } catch (error) {
      const fields = { directory, code: errorCode(error), reason: errorMessage(error) };
      this.#deps.log.debug(fields, 'a directory cannot be watched: its files are read each minute');
    }
  }

  #changed(): void {
    this.#hasNews = true;
    this.#wake?.();
  }
}

/** A named pipe in the place of a file would never end. */
async function readSmall(file: string): Promise<string> {
  let handle: FileHandle | undefined;
  try {
    const found = await stat(file);
    if (!found.isFile()) throw new TlsInputError('UNREADABLE', `${file} is not a file`);
    handle = await open(file, 'r');
    const { size } = await handle.stat();
    if (size > maxBytes) throw new TlsInputError('UNREADABLE', `${file} has ${size} bytes`);
    return await handle.readFile('utf8');
  } catch (cause) {
    if (cause instanceof TlsInputError) throw cause;
    if (errorCode(cause) === 'ENOENT') throw new TlsInputError('NO_FILE', `${file} is not there`, { cause });
    throw new TlsInputError('UNREADABLE', `${file} cannot be read: ${errorMessage(cause)}`, { cause });
  } finally {
    await handle?.close();
  }
}
