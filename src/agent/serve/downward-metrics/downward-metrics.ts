import {
  isFinal,
  type Key,
  type VirtualMachineInstance,
  vhostmdChannel,
  vhostmdDisk,
  vhostmdDiskBytes,
  vhostmdWrites,
} from '../../../api/index.ts';
import { type Clock, type Component, errorCode, errorMessage, type Logger } from '../../../base/index.ts';
import { connectGuestSocket, isProcessAlive, type ProcessId } from '../../../host/index.ts';
import type { LauncherClients, OpenConnection } from '../../../launcher-client/index.ts';
import { KeyedQueue, type KeyResult } from '../../../reconcile/index.ts';
import { LauncherRoot } from '../../vmi/host/index.ts';
import type { VmiStore } from '../../vmi/ports.ts';
import { serveChannel } from './channel.ts';
import { noFigures, reportXml, vmFigures } from './figures.ts';
import { HostFiguresReader } from './host-figures.ts';

export interface DownwardMetricsOptions {
  readonly nodeName: string;
  /** Of the disks; upstream's is 5 s. */
  readonly periodMs?: number;
  readonly procDir?: string;
}

export interface DownwardMetricsDeps {
  readonly vmis: Pick<VmiStore, 'get' | 'keys' | 'onChange'>;
  readonly clients: Pick<LauncherClients, 'peek'>;
  readonly clock: Clock;
  readonly log: Logger;
}

const defaultPeriodMs = 5_000;
/** VMs that are asked side by side; one that does not answer soon gives its worker slot to another. */
const parallelism = 4;
const slotMs = 500;
/** Older than this the figures are of no use (`StatsMaxAge` in pkg/monitoring/metrics/virt-handler/collector). */
const answerMs = 5_000;
const channelBackoff = { baseMs: 1_000, maxMs: 30_000, jitter: 0.2 };

/** Nothing is started yet. Costs one timer while a VM of this node has such a disk, and a connection per VM with the channel. */
export function makeDownwardMetrics(options: DownwardMetricsOptions, deps: DownwardMetricsDeps): Component {
  const metrics = new DownwardMetrics(options, deps);
  return { name: 'downward metrics', start: async () => metrics.start(), stop: () => metrics.stop() };
}

/**
 * Figures for guests. What they are made of is known anew at each look: a process of the agent that takes over finds the VMs, the
 * disks and the sockets, and goes on. Queues and no reconciler: figures that cannot be had are a gap and bring nothing about.
 */
class DownwardMetrics {
  readonly #options: DownwardMetricsOptions;
  readonly #deps: DownwardMetricsDeps;
  readonly #host: HostFiguresReader;
  readonly #disks: KeyedQueue;
  readonly #channels: KeyedQueue;
  /** VMs with such a disk. */
  readonly #withDisk = new Set<Key>();
  /** VMs whose channel is served, by the UID that it is served for. */
  readonly #served = new Map<Key, { readonly uid: string; readonly end: () => void }>();
  readonly #serving = new Set<Promise<void>>();
  /** Of launchers that have been asked: a process keeps its version. */
  readonly #versions = new WeakMap<OpenConnection, string>();
  #endFollowing: (() => void) | undefined;
  #cancelRound: (() => void) | undefined;

  constructor(options: DownwardMetricsOptions, deps: DownwardMetricsDeps) {
    this.#options = options;
    this.#deps = deps;
    const { clock, log } = deps;
    this.#host = new HostFiguresReader({}, { clock, log });
    const onError = (key: Key, error: unknown) =>
      log.debug({ vmi: key, reason: errorMessage(error) }, 'no downward metrics for the guest; tried again');
    this.#disks = new KeyedQueue(
      { concurrency: parallelism, slotMs },
      { run: (key, signal) => this.#refreshDisk(key, signal), clock },
    );
    this.#channels = new KeyedQueue(
      { concurrency: parallelism, slotMs, backoff: channelBackoff },
      { run: (key, signal) => this.#openChannel(key, signal), onError, clock },
    );
  }

  start(): void {
    const { vmis } = this.#deps;
    this.#endFollowing = vmis.onChange((key) => this.#look(key));
    for (const key of vmis.keys()) this.#look(key);
  }

  async stop(): Promise<void> {
    this.#endFollowing?.();
    this.#cancelRound?.();
    await Promise.all([this.#disks.stop(), this.#channels.stop()]);
    for (const { end } of this.#served.values()) end();
    await Promise.all(this.#serving);
  }

  #look(key: Key): void {
    const vmi = this.#running(key);
    if (vmi && hasDisk(vmi)) this.#addDisk(key);
    else this.#withDisk.delete(key);
    const served = this.#served.get(key);
    if (served && (!vmi || !hasChannel(vmi) || served.uid !== vmi.metadata.uid)) served.end();
    else if (!served && vmi && hasChannel(vmi)) this.#channels.add(key);
  }

  #addDisk(key: Key): void {
    if (this.#withDisk.has(key)) return;
    this.#withDisk.add(key);
    this.#disks.add(key);
    if (this.#cancelRound === undefined) this.#wait();
  }

  #wait(): void {
    const { periodMs = defaultPeriodMs } = this.#options;
    this.#cancelRound = this.#deps.clock.schedule(periodMs, () => this.#round());
  }

  /** One that is still asked from the last round is left alone. */
  #round(): void {
    this.#cancelRound = undefined;
    if (this.#withDisk.size === 0) return;
    for (const key of this.#withDisk) if (this.#disks.status(key).state === 'idle') this.#disks.add(key);
    this.#wait();
  }

  #running(key: Key): VirtualMachineInstance | undefined {
    const vmi = this.#deps.vmis.get(key);
    if (!vmi || isFinal(vmi) || vmi.status?.phase !== 'Running') return undefined;
    // On the target of a migration the guest is not there yet; on the source its figures are those of that machine.
    return vmi.status.nodeName === this.#options.nodeName ? vmi : undefined;
  }

  async #refreshDisk(key: Key, signal: AbortSignal): Promise<KeyResult> {
    const vmi = this.#running(key);
    if (!vmi || !hasDisk(vmi)) return { kind: 'done' };
    try {
      const found = await this.#report(vmi, signal);
      if (found) this.#write(found.launcher, found.xml);
    } catch (error) {
      if (!signal.aborted) {
        const fields = { vmi: key, reason: errorMessage(error) };
        this.#deps.log.debug(fields, 'the disk of downward metrics is not refreshed; tried again');
      }
    }
    return { kind: 'done' };
  }

  /** The launcher's tree is its tenant's: no link is followed, and nothing but a plain file of the right size is written to. */
  #write(launcher: ProcessId, xml: string): void {
    const root = new LauncherRoot(launcher.pid, this.#options.procDir);
    root.useRunning(`${vhostmdDisk.directory}/${vhostmdDisk.name}`, (file) => {
      // Else the pid may be another's, and so the root that was opened.
      if (isProcessAlive(launcher)) file.overwrite(vhostmdDiskBytes, vhostmdWrites(xml));
    });
  }

  async #openChannel(key: Key, signal: AbortSignal): Promise<KeyResult> {
    const vmi = this.#running(key);
    if (!vmi || !hasChannel(vmi) || this.#served.has(key)) return { kind: 'done' };
    const uid = vmi.metadata.uid ?? '';
    const connection = this.#connection(uid);
    // The VMI loop is at it.
    if (!connection) return { kind: 'done', requeueAfterMs: channelBackoff.baseMs };
    const address = { launcher: connection.peer, directory: vhostmdChannel.directory, name: vhostmdChannel.socket };
    const limit = AbortSignal.any([signal, AbortSignal.timeout(answerMs)]);
    const socket = await connectGuestSocket(address, limit, this.#options.procDir ?? '/proc');
    const ending = new AbortController();
    this.#served.set(key, { uid, end: () => ending.abort() });
    const report = (until: AbortSignal) => this.#answer(key, uid, until);
    const serving = serveChannel(socket, { report, clock: this.#deps.clock }, ending.signal)
      .catch((error: unknown) => {
        this.#deps.log.debug({ vmi: key, reason: errorMessage(error) }, 'the channel of downward metrics broke');
      })
      .then(() => {
        this.#serving.delete(serving);
        this.#served.delete(key);
        // QEMU may have closed it because the guest goes: then nothing is wanted, or nothing listens.
        this.#channels.addAfter(key, channelBackoff.baseMs);
      });
    this.#serving.add(serving);
    return { kind: 'done' };
  }

  async #answer(key: Key, uid: string, signal: AbortSignal): Promise<string> {
    const vmi = this.#deps.vmis.get(key);
    try {
      const found = vmi?.metadata.uid === uid ? await this.#report(vmi, signal) : undefined;
      return found?.xml ?? noFigures;
    } catch (error) {
      this.#deps.log.debug({ vmi: key, reason: errorMessage(error) }, 'a guest asked for figures that cannot be had');
      return noFigures;
    }
  }

  /** Undefined: there is no launcher to ask, or no domain. */
  async #report(
    vmi: VirtualMachineInstance,
    signal: AbortSignal,
  ): Promise<{ readonly launcher: ProcessId; readonly xml: string } | undefined> {
    const connection = this.#connection(vmi.metadata.uid ?? '');
    if (!connection) return undefined;
    const limit = AbortSignal.any([signal, AbortSignal.timeout(answerMs)]);
    const [{ domainStats }, hypervisor, host] = await Promise.all([
      connection.call('getDomainStats', {}, limit),
      this.#hypervisor(connection, limit),
      this.#host.read(),
    ]);
    const vm = vmFigures(domainStats);
    if (!vm) return undefined;
    const nowMs = this.#deps.clock.now().getTime();
    const { nodeName } = this.#options;
    return { launcher: connection.peer, xml: reportXml({ nodeName, hypervisor, vm, host, nowMs }) };
  }

  /** Launchers before KubeVirt 1.1 do not say. */
  async #hypervisor(connection: OpenConnection, signal: AbortSignal): Promise<string> {
    const known = this.#versions.get(connection);
    if (known !== undefined) return known;
    try {
      const { version } = await connection.call('getQemuVersion', {}, signal);
      this.#versions.set(connection, version);
      return version;
    } catch (error) {
      if (errorCode(error) !== 'UNIMPLEMENTED') throw error;
      return 'qemu-unknown';
    }
  }

  #connection(uid: string): OpenConnection | undefined {
    const connection = this.#deps.clients.peek(uid);
    return connection?.connected ? connection : undefined;
  }
}

function hasDisk({ spec }: VirtualMachineInstance): boolean {
  return spec.volumes?.some(({ downwardMetrics }) => downwardMetrics) ?? false;
}

function hasChannel({ spec }: VirtualMachineInstance): boolean {
  return spec.domain.devices?.downwardMetrics !== undefined;
}
