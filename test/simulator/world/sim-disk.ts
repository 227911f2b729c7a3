import type { SharedRecordFiles } from '../../../src/host/index.ts';
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
  for(life: Life, wire: Wire, fails: (rate: number) => boolean): SharedRecordFiles {
    const run = <T>(label: string, act: () => T) =>
      wire.request({ life, label }, () => {
        if (fails(this.trouble.errorRate)) throw systemError('EIO');
        return act();
      });
    const replace = (name: string, content: string) => {
      if (this.trouble.full) throw systemError('ENOSPC');
      this.files.set(name, content);
    };
    const remove = (name: string) => {
      this.files.delete(name);
      this.removedBy.set(name, life.name);
    };
    return {
      list: () => run('disk list', () => [...this.files.keys()]),
      read: (name) => run(`disk read ${name}`, () => this.#read(name)),
      replace: (name, content) => run(`disk write ${name}`, () => replace(name, content)),
      remove: (name) => run(`disk remove ${name}`, () => remove(name)),
      rename: (from, to) =>
        run(`disk rename ${from}`, () => {
          this.files.set(to, this.#read(from));
          this.files.delete(from);
        }),
      exchange: (name, { before, after }) =>
        run(`disk ${after === undefined ? 'remove' : 'write'} ${name}`, () => {
          const there = this.files.get(name);
          if (there === after) return true;
          if (there !== before) return false;
          if (after === undefined) remove(name);
          else replace(name, after);
          return true;
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
