import type { RecordFiles } from '../../../src/host/index.ts';
import type { Life } from '../engine/scheduler.ts';
import type { Wire } from '../engine/wire.ts';

/** What is wrong with the node's disk. */
export interface DiskTrouble {
  full: boolean;
  /** Reads and writes fail with EIO this often. */
  errorRate: number;
}

/** A directory of one node: of ghost records, or of checkpoints. It outlives the agents. */
export class SimDisk {
  readonly files = new Map<string, string>();
  readonly trouble: DiskTrouble;
  /** File → the process that removed it last. */
  readonly removedBy = new Map<string, string>();

  constructor(trouble: DiskTrouble = { full: false, errorRate: 0 }) {
    this.trouble = trouble;
  }

  /** The directory as one process sees it. `fails`: whether this operation meets an error. */
  for(life: Life, wire: Wire, fails: (rate: number) => boolean): RecordFiles {
    const run = <T>(label: string, act: () => T) =>
      wire.request({ life, label }, () => {
        if (fails(this.trouble.errorRate)) throw systemError('EIO');
        return act();
      });
    return {
      list: () => run('disk list', () => [...this.files.keys()]),
      read: (name) => run(`disk read ${name}`, () => this.#read(name)),
      replace: (name, content) =>
        run(`disk write ${name}`, () => {
          if (this.trouble.full) throw systemError('ENOSPC');
          this.files.set(name, content);
        }),
      remove: (name) =>
        run(`disk remove ${name}`, () => {
          this.files.delete(name);
          this.removedBy.set(name, life.name);
        }),
      rename: (from, to) =>
        run(`disk rename ${from}`, () => {
          this.files.set(to, this.#read(from));
          this.files.delete(from);
        }),
    };
  }

  #read(name: string): string {
    const content = this.files.get(name);
    if (content === undefined) throw systemError('ENOENT');
    return content;
  }
}

function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: simulated`), { code });
}
