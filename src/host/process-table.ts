import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { type ProcessStat, parseProcessStat } from './process-stat.ts';

/**
 * What /proc shows of other processes. A machine can have ten thousand of them: the whole table is read only where their kinship does
 * not lead there, and in slices that leave the JavaScript thread to others in between.
 */

/** So long the thread is held at once, at most. */
const sliceMs = 2;
/** The clock is looked at after so many; a name takes some 10 µs. */
const sliceStep = 16;

export interface NamedProcess {
  readonly id: number;
  readonly name: string;
}

/** Processes below /proc, or threads below a `task`, with their `comm`. */
export async function* namedIn(directory: string, ids?: readonly number[]): AsyncGenerator<NamedProcess> {
  let sinceMs = performance.now();
  for (const [index, id] of (ids ?? (await idsIn(directory))).entries()) {
    if (index % sliceStep === 0 && performance.now() - sinceMs > sliceMs) {
      await setImmediate();
      sinceMs = performance.now();
    }
    yield { id, name: nameOf(id, directory) };
  }
}

/** None of a process that has ended, and where the kernel does not list children (CONFIG_PROC_CHILDREN). */
export async function childrenOf(pid: number, procDir: string): Promise<number[]> {
  const tasks = `${procDir}/${pid}/task`;
  const children: number[] = [];
  for (const tid of await idsIn(tasks)) {
    children.push(...numbers((await readFile(`${tasks}/${tid}/children`, 'latin1').catch(() => '')).split(' ')));
  }
  return children;
}

/** Does not wait for the process, unlike its command line. */
export function nameOf(id: number, directory: string): string {
  return textOf(`${directory}/${id}/comm`).replace(/\n$/, '');
}

/** The kernel reads it in the memory of the process, which can keep a reader waiting: never on the JavaScript thread. */
export async function argumentsOf(pid: number, procDir: string): Promise<string[]> {
  return (await readFile(`${procDir}/${pid}/cmdline`, 'latin1').catch(() => '')).split('\0');
}

/** Undefined for one that has ended. */
export function processFacts(pid: number, procDir: string): ProcessStat | undefined {
  return parseProcessStat(textOf(`${procDir}/${pid}/stat`));
}

/** The second number of NSpid; without a namespace of its own there is only one. */
export function innerPid(pid: number, procDir: string): string {
  const line = textOf(`${procDir}/${pid}/status`)
    .split('\n')
    .find((each) => each.startsWith('NSpid:'));
  const [outer = '', inner = outer] = line?.split(/\s+/).slice(1) ?? [];
  return inner;
}

/** Effective ids of a process, also where it is not the owner of its files below /proc. Undefined: it has ended. */
export function userOf(pid: number, procDir = '/proc'): { readonly uid: number; readonly gid: number } | undefined {
  const lines = textOf(`${procDir}/${pid}/status`).split('\n');
  const [uid, gid] = ['Uid:', 'Gid:'].map((name) => lines.find((line) => line.startsWith(name))?.split('\t')[2]);
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}

async function idsIn(directory: string): Promise<number[]> {
  return numbers(await readdir(directory).catch(() => []));
}

const numbers = (texts: readonly string[]) => texts.map(Number).filter((id) => id > 0);

/** Empty for what has ended meanwhile. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
