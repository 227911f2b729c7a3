import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import path from 'node:path';
import { errorMessage, type Logger } from '../../base/index.ts';
import { replaceFileSync } from '../../host/index.ts';

/** One small JSON document that is replaced as a whole: a reader sees the old one or the new one, never a half. */
export class StateFile<T extends object> {
  readonly #file: string;
  readonly #log: Logger;

  constructor(options: { readonly file: string }, deps: { readonly log: Logger }) {
    this.#file = options.file;
    this.#log = deps.log;
  }

  /** Undefined when there is none, or one that cannot be used: that is set aside with a warning. */
  read(isValid: (value: unknown) => value is T): T | undefined {
    if (!existsSync(this.#file)) return undefined;
    let problem = 'its content has another shape';
    try {
      const value: unknown = JSON.parse(readFileSync(this.#file, 'utf8'));
      if (isValid(value)) return value;
    } catch (error) {
      problem = errorMessage(error);
    }
    const aside = `${this.#file}.broken`;
    this.#log.warn({ file: this.#file, aside, problem }, 'state file cannot be used and is set aside');
    quietly(() => renameSync(this.#file, aside));
    return undefined;
  }

  /** A full disk costs the state after a restart, not the running VM: the failure is logged only. */
  write(value: T): void {
    try {
      mkdirSync(path.dirname(this.#file), { recursive: true });
      replaceFileSync(this.#file, JSON.stringify(value), 0o600);
    } catch (error) {
      this.#log.warn({ file: this.#file, err: errorMessage(error) }, 'state file cannot be written');
    }
  }
}

function quietly(work: () => void): void {
  try {
    work();
  } catch {
    // The failure before it is in the log already.
  }
}
