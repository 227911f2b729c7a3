import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { type Component, errorCode, errorMessage, type Logger } from '../../../base/index.ts';
import { readPlainFile, replaceFile } from '../../../host/index.ts';

const fileName = 'agent-starts';
/** Only a number is written there. */
const maxBytes = 64;

/** How often an agent began on this node: a number in a file of the private directory. Nothing depends on it. */
export class Starts implements Component {
  readonly name = 'count of starts';
  readonly #file: string;
  readonly #log: Logger;
  #count: number | undefined;

  constructor(options: { readonly privateDir: string }, deps: { readonly log: Logger }) {
    this.#file = path.join(options.privateDir, fileName);
    this.#log = deps.log;
  }

  /** This start included; undefined: it could not be counted. */
  get count(): number | undefined {
    return this.#count;
  }

  async start(): Promise<void> {
    try {
      const next = (await this.#before()) + 1;
      await mkdir(path.dirname(this.#file), { recursive: true });
      await replaceFile(this.#file, `${next}\n`, 0o600, 'process');
      this.#count = next;
    } catch (error) {
      this.#log.debug({ file: this.#file, reason: errorMessage(error) }, 'this start is not counted');
    }
  }

  async stop(): Promise<void> {}

  /** What others wrote there counts as nothing. */
  async #before(): Promise<number> {
    const text = await readPlainFile(this.#file, maxBytes).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT') return '0';
      throw error;
    });
    return /^\d{1,9}\n?$/.test(text) ? Number(text) : 0;
  }
}
