import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { CodedError } from '../../../base/index.ts';
import { readKernelFigures, readPlainFile } from '../../../host/index.ts';
import type { KsmPlan, KsmState } from './ksm-plan.ts';

/** The kernel says something that is no figure. */
export class KsmError extends CodedError<'UNREADABLE'> {}

export interface KsmFilesOptions {
  /** `/proc/1/root/sys/kernel/mm/ksm`: the container's own may be read-only. */
  readonly ksmDir: string;
  /** `/proc/meminfo` */
  readonly meminfo: string;
}

/** The kernel's page sharing, read and set. */
export class KsmFiles {
  readonly #options: KsmFilesOptions;

  constructor(options: KsmFilesOptions) {
    this.#options = options;
  }

  /** Undefined: this kernel has none, or does not let us see it. */
  async isRunning(): Promise<boolean | undefined> {
    try {
      return (await this.#read('run')).trim() === '1';
    } catch {
      return undefined;
    }
  }

  /** Rejects with the system's error or KsmError. */
  async state(): Promise<KsmState> {
    const { meminfo } = this.#options;
    const memory = await readKernelFigures(meminfo);
    const pages = (await this.#read('pages_to_scan')).trim();
    return {
      isRunning: (await this.#read('run')).trim() === '1',
      pagesToScan: known(/^\d+$/.test(pages) ? Number(pages) : undefined, 'pages_to_scan'),
      totalKib: known(memory('MemTotal'), `MemTotal of ${meminfo}`),
      availableKib: known(memory('MemAvailable'), `MemAvailable of ${meminfo}`),
    };
  }

  /** Figures first: the kernel begins with `run`. */
  async apply(plan: KsmPlan): Promise<void> {
    if (plan.run) {
      await this.#write('sleep_millisecs', plan.sleepMs);
      await this.#write('pages_to_scan', plan.pagesToScan);
    }
    await this.#write('run', plan.run ? 1 : 0);
  }

  #read(name: string): Promise<string> {
    return readPlainFile(path.join(this.#options.ksmDir, name), 64);
  }

  async #write(name: string, value: number): Promise<void> {
    await writeFile(path.join(this.#options.ksmDir, name), `${value}\n`, { flag: 'r+' });
  }
}

function known(figure: number | undefined, what: string): number {
  if (figure !== undefined) return figure;
  throw new KsmError('UNREADABLE', `${what} is no figure`);
}
