import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Usage, UsageSample, UsageSource } from '../../apiserver/index.ts';
import { sleep } from '../../base/index.ts';
import { type ProcessStat, readProcessStat } from '../../host/index.ts';
import { readIfThere } from '../files.ts';
import { type ProcessIdentity, parseIdentity } from '../process-identity.ts';

/** Both are the same on every Linux that Node.js runs on. */
const ticksPerSecond = 100;
const pageBytes = 4096;
/** Figures of less are noise: a tick is 10 ms. */
const shortestMs = 1_000;
/** Nobody has asked for so long: what was used meanwhile says little of now. */
const longestMs = 60_000;

interface Look {
  readonly atMs: number;
  readonly machineTicks: number;
  readonly machineBytes: number;
  readonly processes: ReadonlyMap<number, ProcessStat>;
}

/**
 * CPU and memory of the machine and of each pod's processes, from /proc when somebody asks: a second look comes a second after the
 * first one, later ones count from the one before. A pod's processes are process 1 of it and its descendants, for the kernel lets no child of a
 * pod's leave its namespace.
 */
export class ProcUsage implements UsageSource {
  readonly #podsDirs: readonly string[];
  readonly #procDir: string;
  #last: Look | undefined;
  #looking: Promise<UsageSample> | undefined;

  constructor(podsDirs: readonly string[], procDir = '/proc') {
    this.#podsDirs = podsDirs;
    this.#procDir = procDir;
  }

  /** Who asks while another waits gets the same. */
  sample(): Promise<UsageSample> {
    this.#looking ??= this.#sample().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #sample(): Promise<UsageSample> {
    const isOld = this.#last === undefined || performance.now() - this.#last.atMs > longestMs;
    const before = isOld || !this.#last ? await this.#look() : this.#last;
    const waitMs = shortestMs - (performance.now() - before.atMs);
    if (waitMs > 0) await sleep(waitMs);
    const after = await this.#look();
    this.#last = after;
    return sampleOf(before, after, await this.#roots());
  }

  async #look(): Promise<Look> {
    const [stat, memory, names] = await Promise.all([
      readFile(`${this.#procDir}/stat`, 'latin1'),
      readFile(`${this.#procDir}/meminfo`, 'latin1'),
      readdir(this.#procDir),
    ]);
    const atMs = performance.now();
    const processes = new Map<number, ProcessStat>();
    for (const pid of names.map(Number).filter((each) => each > 0)) {
      const found = await readProcessStat(pid, this.#procDir);
      if (found) processes.set(pid, found);
    }
    return { atMs, machineTicks: busyTicks(stat), machineBytes: usedBytes(memory), processes };
  }

  /** Process 1 of each pod, by its UID. */
  async #roots(): Promise<Map<string, ProcessIdentity>> {
    const roots = new Map<string, ProcessIdentity>();
    for (const dir of this.#podsDirs) {
      for (const uid of await readdir(dir).catch(() => [])) {
        const identity = parseIdentity((await readIfThere(path.join(dir, uid, 'sandbox', 'pid1'))) ?? '');
        if (identity) roots.set(uid, identity);
      }
    }
    return roots;
  }
}

function sampleOf(before: Look, after: Look, roots: ReadonlyMap<string, ProcessIdentity>): UsageSample {
  const windowMs = Math.round(after.atMs - before.atMs);
  const nanocores = (ticks: number) => (Math.max(0, ticks) / ticksPerSecond / (windowMs / 1000)) * 1e9;
  const children = new Map<number, number[]>();
  for (const [pid, { parent }] of after.processes) children.set(parent, [...(children.get(parent) ?? []), pid]);
  const usageOf = (root: ProcessIdentity): Usage | undefined => {
    // Another process may have its pid by now.
    if (after.processes.get(root.pid)?.startTicks !== root.startTicks) return undefined;
    const family = [root.pid];
    for (const pid of family) family.push(...(children.get(pid) ?? []));
    let [ticks, pages] = [0, 0];
    for (const pid of family) {
      const [now, then] = [after.processes.get(pid), before.processes.get(pid)];
      ticks += (now?.cpuTicks ?? 0) - (then?.startTicks === now?.startTicks ? (then?.cpuTicks ?? 0) : 0);
      pages += now?.residentPages ?? 0;
    }
    return { cpuNanocores: nanocores(ticks), memoryBytes: pages * pageBytes };
  };
  const pods = new Map<string, Usage>();
  for (const [uid, root] of roots) {
    const usage = usageOf(root);
    if (usage) pods.set(uid, usage);
  }
  const machine = {
    cpuNanocores: nanocores(after.machineTicks - before.machineTicks),
    memoryBytes: after.machineBytes,
  };
  return { at: new Date(), windowMs, machine, pods };
}

/** All but what CPUs waited: of the first line of /proc/stat, `user nice system idle iowait irq softirq steal`. */
function busyTicks(stat: string): number {
  const fields = (/^cpu +(.*)$/m.exec(stat)?.[1] ?? '').split(' ').map(Number);
  return [0, 1, 2, 5, 6, 7].reduce((sum, index) => sum + (fields[index] ?? 0), 0);
}

function usedBytes(meminfo: string): number {
  const lines = meminfo.split('\n');
  const kilobytes = (name: string) => {
    const line = lines.find((each) => each.startsWith(`${name}:`)) ?? '';
    return Number.parseInt(line.slice(name.length + 1), 10) || 0;
  };
  return (kilobytes('MemTotal') - kilobytes('MemAvailable')) * 1024;
}
