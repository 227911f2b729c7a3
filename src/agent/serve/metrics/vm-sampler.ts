import { isFinal, type Key, type VirtualMachineInstance } from '../../../api/index.ts';
import { type Clock, errorMessage, type Logger } from '../../../base/index.ts';
import { KeyedQueue, type KeyResult } from '../../../reconcile/index.ts';
import type { VmiStore } from '../../vmi/ports.ts';
import { type PackedLines, packLines } from './packed-lines.ts';
import { type SampledLaunchers, type SampleSource, sampleSources } from './ports.ts';
import { isMeasurable, isMigrating, type SampleJob, sampleOnce } from './sample-once.ts';
import { isOfNode } from './vm-labels.ts';

export interface VmSamplerOptions {
  readonly nodeName: string;
  /** VMs asked side by side by each source; one that hangs soon gives its worker slot to another. */
  readonly parallelism: number;
  readonly periodMs: Readonly<Record<SampleSource, number>>;
  /** Figures older than this are not published any more. */
  readonly maxAgeMs: Readonly<Record<SampleSource, number>>;
  /** Without a scrape for this long no launcher is asked. */
  readonly idleAfterMs: number;
  /** The first scrape waits this long for figures. */
  readonly firstScrapeMs: number;
}

export const samplerDefaults: Omit<VmSamplerOptions, 'nodeName'> = {
  parallelism: 8,
  periodMs: { stats: 15_000, filesystems: 30_000, 'dirty-rate': 60_000, migration: 5_000 },
  maxAgeMs: { stats: 60_000, filesystems: 120_000, 'dirty-rate': 180_000, migration: 20_000 },
  idleAfterMs: 300_000,
  firstScrapeMs: 1_000,
};

export interface VmSamplerDeps {
  readonly vmis: VmiStore;
  readonly launchers: SampledLaunchers;
  readonly clock: Clock;
  readonly log: Logger;
  /** Spreads the questions over the period. */
  readonly random: () => number;
}

/** What one source said of one VM last. */
interface Sample {
  wasAsked: boolean;
  lines: PackedLines | undefined;
  atMs: number | undefined;
  errors: number;
  failuresInARow: number;
}

interface Sampled {
  readonly uid: string;
  readonly samples: Record<SampleSource, Sample>;
  /** Its migration is asked after. */
  followsMigration: boolean;
}

/** A VM in an answer. */
export interface SampledVm {
  readonly key: Key;
  readonly lines: readonly PackedLines[];
  readonly sources: readonly {
    readonly source: SampleSource;
    readonly ageMs: number | undefined;
    readonly errors: number;
  }[];
}

/** A launcher that is not connected is looked for again after this. */
const unconnectedMs = 2_000;
const alwaysSampled = sampleSources.filter((source) => source !== 'migration');
/** Longer than this a launcher keeps no other one waiting. Dirty pages are counted for a second. */
const slotMs: Readonly<Record<SampleSource, number>> = {
  ...{ stats: 200, filesystems: 200, migration: 200 },
  'dirty-rate': 1_500,
};

/**
 * The figures of this node's VMs, asked for in the background while clients scrape. Each VM and each source has a turn of
 * its own: a launcher that hangs costs its own series, and is not asked again before its last call has ended.
 * It uses the queue alone and no reconciler: it brings nothing about, a question that fails is a gap in the figures and has no
 * back-off but the period's, and its worker slots have a time limit.
 */
export class VmSampler {
  readonly #options: VmSamplerOptions;
  readonly #deps: VmSamplerDeps;
  readonly #vms = new Map<Key, Sampled>();
  readonly #queues: Readonly<Record<SampleSource, KeyedQueue>>;
  readonly #waiters = new Set<() => void>();
  #wantedMs: number | undefined;
  /** Undefined: it sleeps. */
  #endFollowing: (() => void) | undefined;
  #cancelRest: (() => void) | undefined;
  #isStopped = false;

  constructor(options: VmSamplerOptions, deps: VmSamplerDeps) {
    this.#options = options;
    this.#deps = deps;
    const queue = (source: SampleSource) =>
      new KeyedQueue(
        { concurrency: options.parallelism, slotMs: slotMs[source] },
        { run: (key, signal) => this.#run(source, key, signal), clock: deps.clock },
      );
    this.#queues = {
      ...{ stats: queue('stats'), filesystems: queue('filesystems'), migration: queue('migration') },
      'dirty-rate': queue('dirty-rate'),
    };
  }

  /** Of it memory is held. */
  get size(): number {
    return this.#vms.size;
  }

  get isAwake(): boolean {
    return this.#endFollowing !== undefined;
  }

  /**
   * A client scrapes. Resolves at once while the sampler is at work; the first time when all VMs were asked, after
   * `firstScrapeMs` at the latest.
   */
  async want(): Promise<void> {
    this.#wantedMs = this.#deps.clock.monotonicMs();
    if (this.isAwake || this.#isStopped) return;
    this.#wake();
    await this.#firstRound();
  }

  /** What may be published now, without those that are gone or too old. No I/O. */
  read(): SampledVm[] {
    const nowMs = this.#deps.clock.monotonicMs();
    const { maxAgeMs } = this.#options;
    const found: SampledVm[] = [];
    for (const [key, { uid, samples, followsMigration }] of this.#vms) {
      const vmi = this.#wanted(key);
      if (vmi?.metadata.uid !== uid) continue;
      const published = followsMigration && isMigrating(vmi) ? sampleSources : alwaysSampled;
      const sources = published.map((source) => {
        const { atMs, errors } = samples[source];
        return { source, errors, ageMs: atMs === undefined ? undefined : nowMs - atMs };
      });
      const fresh = sources.filter(({ source, ageMs }) => ageMs !== undefined && ageMs <= maxAgeMs[source]);
      const lines = fresh.flatMap(({ source }) => samples[source].lines ?? []);
      found.push({ key, lines, sources });
    }
    return found;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#sleep();
    await Promise.all(sampleSources.map((source) => this.#queues[source].stop()));
  }

  #wake(): void {
    const { vmis } = this.#deps;
    this.#endFollowing = vmis.onChange((key) => this.#look(key));
    for (const key of vmis.keys()) this.#look(key);
    this.#rest();
  }

  /** Sleeps when no client asks any more, or looks again when that may be. */
  #rest(): void {
    const { clock } = this.#deps;
    const leftMs = (this.#wantedMs ?? 0) + this.#options.idleAfterMs - clock.monotonicMs();
    if (leftMs <= 0) this.#sleep();
    else this.#cancelRest = clock.schedule(leftMs, () => this.#rest());
  }

  #sleep(): void {
    this.#endFollowing?.();
    this.#endFollowing = undefined;
    this.#cancelRest?.();
    this.#vms.clear();
    this.#notifyWaiters();
  }

  /** Undefined: nothing is published of it. */
  #wanted(key: Key): VirtualMachineInstance | undefined {
    const vmi = this.#deps.vmis.get(key);
    return vmi && isOfNode(vmi, this.#options.nodeName) && !isFinal(vmi) ? vmi : undefined;
  }

  #look(key: Key): void {
    const vmi = this.#wanted(key);
    const uid = vmi?.metadata.uid;
    const known = this.#vms.get(key);
    if (known?.uid === uid) {
      if (known && vmi) this.#followMigration(key, known, vmi);
      return;
    }
    this.#vms.delete(key);
    if (!vmi || uid === undefined) return;
    const samples = { stats: nothing(), filesystems: nothing(), 'dirty-rate': nothing(), migration: nothing() };
    const vm: Sampled = { uid, samples, followsMigration: false };
    this.#vms.set(key, vm);
    for (const source of alwaysSampled) this.#queues[source].add(key);
    this.#followMigration(key, vm, vmi);
  }

  /** Once per migration, not with each of its many writes. */
  #followMigration(key: Key, vm: Sampled, vmi: VirtualMachineInstance): void {
    if (vm.followsMigration || !isMigrating(vmi)) return;
    vm.followsMigration = true;
    this.#queues.migration.add(key);
  }

  async #run(source: SampleSource, key: Key, signal: AbortSignal): Promise<KeyResult> {
    const vm = this.#vms.get(key);
    const vmi = this.#wanted(key);
    if (!vm || vmi?.metadata.uid !== vm.uid) return { kind: 'done' };
    const sample = vm.samples[source];
    const periodMs = this.#options.periodMs[source];
    if (source === 'dirty-rate' && !isMeasurable(vmi)) {
      Object.assign(sample, { lines: undefined, atMs: undefined });
      return { kind: 'done', requeueAfterMs: periodMs };
    }
    if (source === 'migration' && !isMigrating(vmi)) {
      vm.followsMigration = false;
      vm.samples.migration = nothing();
      return { kind: 'done' };
    }
    const launcher = this.#deps.launchers.find(vmi);
    if (launcher) await this.#ask({ source, vmi, launcher, signal }, sample);
    sample.wasAsked = true;
    this.#notifyWaiters();
    // Not there yet, or being dialled by the VMI loop: nothing to complain of.
    if (!launcher) return { kind: 'done', requeueAfterMs: unconnectedMs };
    // The first questions come all at once: from then on they are spread.
    const spread = 0.75 + this.#deps.random() / 2;
    return { kind: 'done', requeueAfterMs: periodMs * spread * Math.min(4, 1 + sample.failuresInARow) };
  }

  async #ask(job: SampleJob, sample: Sample): Promise<void> {
    const { clock, log } = this.#deps;
    const askedMs = clock.monotonicMs();
    try {
      const lines = await sampleOnce(job);
      sample.lines = lines && packLines(lines);
      sample.atMs = askedMs;
      sample.failuresInARow = 0;
    } catch (error) {
      if (job.signal.aborted) return;
      sample.errors++;
      sample.failuresInARow++;
      const { namespace, name } = job.vmi.metadata;
      const fields = { vmi: `${namespace}/${name}`, source: job.source, reason: errorMessage(error) };
      log[sample.failuresInARow === 1 ? 'warn' : 'debug'](fields, 'no figures of the VM; asked again');
    }
  }

  #firstRound(): Promise<void> {
    const isDone = () => [...this.#vms.values()].every(({ samples }) => samples.stats.wasAsked);
    return new Promise((resolve) => {
      const end = () => {
        cancel();
        this.#waiters.delete(look);
        resolve();
      };
      const look = () => {
        if (isDone() || !this.isAwake) end();
      };
      const cancel = this.#deps.clock.schedule(this.#options.firstScrapeMs, end);
      this.#waiters.add(look);
      look();
    });
  }

  #notifyWaiters(): void {
    for (const look of [...this.#waiters]) look();
  }
}

function nothing(): Sample {
  return { wasAsked: false, lines: undefined, atMs: undefined, errors: 0, failuresInARow: 0 };
}
