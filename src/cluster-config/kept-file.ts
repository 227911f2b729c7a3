import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { type Clock, errorCode, errorMessage, type Logger } from '../base/index.ts';
import { openPlainFile, readText, replaceFile } from '../host/index.ts';
import { SingleReconciler } from '../reconcile/index.ts';
import { fromKeptText, type KeptConfiguration, toKeptText } from './kept-configuration.ts';

export interface KeptFileOptions {
  readonly privateDir: string;
  /** Objects of another namespace configure another installation. */
  readonly namespace: string;
}

export interface KeptFileDeps {
  readonly clock: Clock;
  readonly log: Logger;
}

/** In the private directory. */
export const keptFileName = 'last-good-configuration.json';

/** An object of the API server is at most 1.5 MiB. */
const maxBytes = 2 * 1024 * 1024;
const backoff = { baseMs: 1_000, maxMs: 300_000, jitter: 0.1 };
const othersMayWrite = 0o022;

/**
 * The last good configuration in a file of the private directory, for an agent that starts while the KubeVirt object cannot be
 * read. A file that is torn, absurd, too long or not only this user's counts as none. One write at a time, of the newest.
 */
export class KeptFile {
  readonly #file: string;
  readonly #namespace: string;
  readonly #log: Logger;
  readonly #writes: SingleReconciler;
  #newest: KeptConfiguration | undefined;

  constructor({ privateDir, namespace }: KeptFileOptions, { clock, log }: KeptFileDeps) {
    this.#file = path.join(privateDir, keptFileName);
    this.#namespace = namespace;
    this.#log = log;
    const reconcile = async () => {
      await this.#write();
      return { kind: 'done' } as const;
    };
    this.#writes = new SingleReconciler(
      { name: this.#file, backoff, failedMessage: 'the configuration could not be kept for the next start' },
      { reconcile, clock, log: log.child({ file: this.#file }) },
    );
  }

  /** Undefined: there is none that can be used; why is logged. Never rejects. */
  async read(): Promise<KeptConfiguration | undefined> {
    try {
      const kept = fromKeptText(await readOwn(this.#file));
      if (kept.kubevirt.metadata.namespace !== this.#namespace) throw new Error('it is of another namespace');
      return kept;
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return undefined;
      const words = { file: this.#file, reason: errorMessage(error) };
      this.#log.warn(words, 'the kept configuration cannot be used: it counts as none');
      return undefined;
    }
  }

  /** Takes no time: the file follows. */
  keep(configuration: KeptConfiguration): void {
    this.#newest = configuration;
    this.#writes.wake();
  }

  /** What is under way is ended; what failed and waits for its next try is given up. */
  async stop(): Promise<void> {
    await this.#writes.stop();
  }

  async #write(): Promise<void> {
    const text = this.#newest && toKeptText(this.#newest);
    if (text === undefined || Buffer.byteLength(text) > maxBytes) {
      this.#log.warn(
        { file: this.#file },
        'this configuration is not kept: it has no identity, or is too long or too deep',
      );
      return;
    }
    await mkdir(path.dirname(this.#file), { recursive: true });
    await replaceFile(this.#file, text, 0o600);
  }
}

/** A plain file that no other user could have written. Rejects otherwise. */
async function readOwn(file: string): Promise<string> {
  const handle = await openPlainFile(file);
  try {
    const { uid, mode } = await handle.stat();
    if (uid !== process.geteuid?.()) throw new Error('it belongs to somebody else');
    if ((mode & othersMayWrite) !== 0) throw new Error('others may write to it');
    return await readText(handle, maxBytes);
  } finally {
    await handle.close();
  }
}
