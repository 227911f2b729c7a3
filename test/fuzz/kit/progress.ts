import { readFileSync, readSync, writeSync } from 'node:fs';

/** What a fuzzing process works on: written before each input, so that whoever ends the process can tell which it was. */
export interface Place {
  readonly stage: 'start' | 'known' | 'random' | 'growing' | 'end';
  /** Of the known input, of the run, or of the growing input. */
  readonly index: number;
  /** Bytes of a growing input; seed of the batch of a random one. */
  readonly size: number;
}

const stages: readonly Place['stage'][] = ['start', 'known', 'random', 'growing', 'end'];
const recordBytes = 24;

/** A place in a file that both processes have open. */
export class Progress {
  readonly #fd: number;
  readonly #record = Buffer.alloc(recordBytes);

  constructor(fd: number) {
    this.#fd = fd;
  }

  write({ stage, index, size }: Place): void {
    this.#record.writeDoubleLE(stages.indexOf(stage), 0);
    this.#record.writeDoubleLE(index, 8);
    this.#record.writeDoubleLE(size, 16);
    writeSync(this.#fd, this.#record, 0, recordBytes, 0);
  }

  read(): Place {
    const record = Buffer.alloc(recordBytes);
    readSync(this.#fd, record, 0, recordBytes, 0);
    return {
      stage: stages[record.readDoubleLE(0)] ?? 'start',
      index: record.readDoubleLE(8),
      size: record.readDoubleLE(16),
    };
  }
}

const ticksPerSecond = 100;
const pageBytes = 4096;

/** Processor time and resident memory of a process; undefined: it is gone. */
export function usageOf(pid: number): { readonly cpuMs: number; readonly rssBytes: number } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    const pages = Number(readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')[1]);
    return { cpuMs: (ticks * 1000) / ticksPerSecond, rssBytes: pages * pageBytes };
  } catch {
    return undefined;
  }
}
