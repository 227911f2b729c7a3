import { readdir } from 'node:fs/promises';
import { type Clock, errorMessage, type Logger } from '../../../base/index.ts';
import { type KernelFigures, readKernelFigures, readPlainFile } from '../../../host/index.ts';

/** Of the machine; absent where it does not give them. Memory in KiB. */
export interface HostFigures {
  /** Packages, as `physical_package_id` counts them. */
  readonly cpus?: number;
  /** Spent by programs and by the kernel for them. */
  readonly cpuSeconds?: number;
  readonly memory?: {
    readonly free: number;
    readonly freeVirtual: number;
    readonly used: number;
    readonly usedVirtual: number;
  };
  readonly swapped?: { readonly inKib: number; readonly outKib: number };
}

/** `USER_HZ`: what the kernel shows to programs, whatever it counts in. */
const ticksPerSecond = 100;
/** Of every machine that runs these guests. */
const pageKib = 4;
const maxBytes = 1024 * 1024;
/** A round of all VMs, and guests that ask at the same moment, take one look. */
const freshMs = 500;

export interface HostFiguresOptions {
  readonly procDir?: string;
  readonly sysDir?: string;
}

/** Looks at the machine once for all who ask within half a second. */
export class HostFiguresReader {
  readonly #procDir: string;
  readonly #sysDir: string;
  readonly #deps: { readonly clock: Clock; readonly log: Logger };
  #packages: Promise<number> | undefined;
  #kept: { readonly atMs: number; readonly figures: Promise<HostFigures> } | undefined;
  #hasWarned = false;

  constructor(options: HostFiguresOptions, deps: { readonly clock: Clock; readonly log: Logger }) {
    this.#procDir = options.procDir ?? '/proc';
    this.#sysDir = options.sysDir ?? '/sys';
    this.#deps = deps;
  }

  /** Never rejects. */
  read(): Promise<HostFigures> {
    const nowMs = this.#deps.clock.monotonicMs();
    if (!this.#kept || nowMs - this.#kept.atMs >= freshMs) this.#kept = { atMs: nowMs, figures: this.#look() };
    return this.#kept.figures;
  }

  async #look(): Promise<HostFigures> {
    const [cpus, stat, meminfo, vmstat] = await Promise.all([
      this.#orNothing(this.#packageCount()),
      this.#orNothing(readPlainFile(`${this.#procDir}/stat`, maxBytes)),
      this.#orNothing(readKernelFigures(`${this.#procDir}/meminfo`)),
      this.#orNothing(readKernelFigures(`${this.#procDir}/vmstat`)),
    ]);
    const cpuSeconds = stat === undefined ? undefined : cpuSecondsOf(stat);
    return {
      ...(cpus !== undefined && { cpus }),
      ...(cpuSeconds !== undefined && { cpuSeconds }),
      ...(meminfo !== undefined && { memory: memoryOf(meminfo) }),
      ...(vmstat !== undefined && { swapped: swappedOf(vmstat) }),
    };
  }

  /** A machine keeps its processors: they are counted until that has worked. */
  async #packageCount(): Promise<number> {
    this.#packages ??= countPackages(`${this.#sysDir}/devices/system/cpu`);
    try {
      return await this.#packages;
    } catch (error) {
      this.#packages = undefined;
      throw error;
    }
  }

  async #orNothing<T>(look: Promise<T>): Promise<T | undefined> {
    try {
      return await look;
    } catch (error) {
      const level = this.#hasWarned ? 'debug' : 'warn';
      this.#hasWarned = true;
      this.#deps.log[level]({ reason: errorMessage(error) }, 'guests get no figures of a part of this machine');
      return undefined;
    }
  }
}

async function countPackages(dir: string): Promise<number> {
  const names = (await readdir(dir)).filter((name) => /^cpu\d+$/.test(name));
  const ids = await Promise.all(names.map((name) => readPlainFile(`${dir}/${name}/topology/physical_package_id`, 64)));
  return new Set(ids.map((id) => id.trim())).size;
}

function cpuSecondsOf(stat: string): number | undefined {
  const fields = /^cpu +(\d+) (\d+) (\d+)/m.exec(stat);
  if (!fields) return undefined;
  const [, user, nice, system] = fields.map(Number);
  return ((user ?? 0) + (nice ?? 0) + (system ?? 0)) / ticksPerSecond;
}

function memoryOf(meminfo: KernelFigures): NonNullable<HostFigures['memory']> {
  const of = (name: string) => meminfo(name) ?? 0;
  const [free, kept] = [of('MemFree'), of('Buffers') + of('Cached')];
  return {
    free,
    freeVirtual: free + of('SwapFree'),
    used: of('MemTotal') - free - kept,
    usedVirtual: of('MemTotal') + of('SwapTotal') - free - kept - of('SwapCached'),
  };
}

function swappedOf(vmstat: KernelFigures): NonNullable<HostFigures['swapped']> {
  const kib = (name: string) => (vmstat(name) ?? 0) * pageKib;
  return { inKib: kib('pswpin'), outKib: kib('pswpout') };
}
