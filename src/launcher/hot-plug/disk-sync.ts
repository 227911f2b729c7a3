import type { VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger } from '../../base/index.ts';
import { type DomainRef, formatLibvirtError, isLibvirtError, LibvirtError } from '../../libvirt/index.ts';
import {
  type ConverterOptions,
  driveWithMedium,
  isTrackingRecord,
  type LiveDisk,
  type LiveDomain,
  liveDiskXml,
  pluggedDiskXml,
  type ResolvedDisk,
  readLiveDomain,
  shapedVmi,
  type WantedDisk,
  wantedDisks,
} from '../domain/index.ts';
import { LauncherError, type LauncherErrorCode } from '../errors.ts';
import type { Hypervisor } from '../ports.ts';
import { growDisks, type TrackedImageOf } from './grow.ts';
import { type DiskStep, diskSteps, volumesToFind } from './steps.ts';

/** Volume name → what was found and can be opened. */
export type FoundMedia = ReadonlyMap<string, ResolvedDisk>;

export interface DiskSyncDeps {
  readonly hypervisor: Pick<
    Hypervisor,
    'xml' | 'persistentXml' | 'attachDevice' | 'detachDevice' | 'updateDevice' | 'blockInfo' | 'blockResize'
  >;
  /** The files of plugged volumes, as far as they are there and can be opened. */
  readonly findMedia: (vmi: VirtualMachineInstance, names: readonly string[]) => Promise<FoundMedia>;
  /** Records of changed blocks: which image one is about, and the end of one whose volume has left. */
  readonly tracking: {
    readonly imageOf: TrackedImageOf;
    readonly forget: (volume: string) => Promise<void>;
  };
  /** The agent has to look at the domain: a change of a medium makes no event of libvirt. */
  readonly onMediumChange: () => void;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Work {
  readonly domain: DomainRef;
  readonly vmi: VirtualMachineInstance;
  readonly options: ConverterOptions;
  readonly live: LiveDomain;
  readonly wanted: readonly WantedDisk[];
  readonly media: FoundMedia;
  readonly untilMs: number;
}

interface Failure {
  readonly code: LauncherErrorCode;
  readonly text: string;
}

/** No guest is asked for a disk after this long in one sync: libvirt waits 5 s for each, the agent 20 s for all. */
const unplugBudgetMs = 8_000;

/** Makes the disks of a running domain those of its VMI. One disk that fails does not hold up the others. */
export class DiskSync {
  readonly #hotplugDir: string;
  readonly #deps: DiskSyncDeps;

  constructor(options: { readonly hotplugDir: string }, deps: DiskSyncDeps) {
    this.#hotplugDir = options.hotplugDir;
    this.#deps = deps;
  }

  /**
   * Throws `LauncherError`. `UNPLUG_PENDING` means that the agent must leave the volume mounted: QEMU has it open. The next sync
   * asks the guest again; what paces that is the agent's back-off.
   */
  async sync(domain: DomainRef, given: VirtualMachineInstance, options: ConverterOptions): Promise<void> {
    const vmi = shapedVmi(given);
    const live = readLiveDomain(await this.#deps.hypervisor.xml(domain));
    const wanted = wantedDisks(vmi, live);
    const media = await this.#deps.findMedia(vmi, volumesToFind({ live: live.disks, wanted }));
    const steps = diskSteps({ live: live.disks, wanted, media, hotplugDir: this.#hotplugDir });
    if (isMigrating(vmi)) {
      refuseWhileMigrating(steps);
      return;
    }
    const untilMs = this.#deps.clock.now().getTime() + unplugBudgetMs;
    const failures = await this.#run(steps, { domain, vmi, options, live, wanted, media, untilMs });
    await growDisks(domain, vmi, stayingDisks(live, steps), {
      ...this.#deps,
      trackedImageOf: this.#deps.tracking.imageOf,
    });
    throwAll(failures);
  }

  async #run(steps: readonly DiskStep[], work: Work): Promise<Failure[]> {
    const failures: Failure[] = [];
    for (const step of steps) {
      const failure = await this.#do(step, work);
      if (failure) failures.push(failure);
    }
    return failures;
  }

  #do(step: DiskStep, work: Work): Promise<Failure | undefined> {
    switch (step.step) {
      case 'unplug':
        return this.#unplug(step.disk, work);
      case 'setMedium':
        return this.#setMedium(step.disk, step.medium, work);
      case 'plug':
        return this.#plug(step.disk, work);
      default:
        return step satisfies never;
    }
  }

  async #plug(disk: WantedDisk, { domain, vmi, options, live, wanted, media }: Work): Promise<Failure | undefined> {
    const given = { context: { disks: media, options }, ioThreadCount: live.ioThreadCount };
    return this.#tried(disk.name, 'plugged in', async () => {
      const xml = pluggedDiskXml(vmi, disk, wanted, given);
      await this.#deps.hypervisor.attachDevice(domain, xml, { persistent: true });
      this.#deps.log.info({ volume: disk.name, target: disk.plan.targetDevice }, 'disk plugged in');
    });
  }

  async #setMedium(disk: LiveDisk, medium: ResolvedDisk | undefined, { domain }: Work): Promise<Failure | undefined> {
    const what = medium ? 'inserted' : 'ejected';
    return this.#tried(disk.name, what, async () => {
      await this.#deps.hypervisor.updateDevice(domain, driveWithMedium(disk, medium), { persistent: true });
      this.#deps.onMediumChange();
      this.#deps.log.info({ volume: disk.name, target: disk.target }, `medium ${what}`);
    });
  }

  async #tried(name: string, what: string, work: () => Promise<void>): Promise<Failure | undefined> {
    try {
      await work();
      return undefined;
    } catch (error) {
      return { code: 'HOTPLUG_FAILED', text: `volume ${name} could not be ${what}: ${messageOf(error)}` };
    }
  }

  /** What libvirt answers is not enough to go by: the guest decides when the disk is gone, so the domain is read again. */
  async #unplug(disk: LiveDisk, { domain, untilMs }: Work): Promise<Failure | undefined> {
    const { clock, log } = this.#deps;
    const left = clock.now().getTime() < untilMs;
    const reason = left ? await this.#askToRelease(domain, disk) : undefined;
    const { disks } = readLiveDomain(await this.#deps.hypervisor.xml(domain));
    if (!disks.some(({ target, source }) => target === disk.target && source === disk.source)) {
      if (isTrackingRecord(disk.source)) await this.#deps.tracking.forget(disk.name);
      log.info({ volume: disk.name, target: disk.target }, 'disk unplugged');
      return undefined;
    }
    const why = reason ? ` (${reason})` : '';
    const text = `volume ${disk.name}: the guest has not released disk ${disk.target} yet, it is asked again${why}`;
    return { code: 'UNPLUG_PENDING', text };
  }

  /** The first request takes the disk out of the definition already; libvirt refuses to do that twice. */
  async #askToRelease(domain: DomainRef, disk: LiveDisk): Promise<string | undefined> {
    const { hypervisor } = this.#deps;
    try {
      const defined = readLiveDomain(await hypervisor.persistentXml(domain));
      const persistent = defined.disks.some(({ target }) => target === disk.target);
      await hypervisor.detachDevice(domain, liveDiskXml(disk), { persistent });
      return undefined;
    } catch (error) {
      if (isLibvirtError(error, 'NO_DOMAIN', 'CONNECTION_LOST')) throw error;
      return messageOf(error);
    }
  }
}

/** What the guest gives back, now or later, has no size to be told. */
function stayingDisks({ disks }: LiveDomain, steps: readonly DiskStep[]): LiveDisk[] {
  const leaving = new Set(steps.flatMap(({ step, disk }) => (step === 'unplug' ? [disk.name] : [])));
  return disks.filter(({ name }) => !leaving.has(name));
}

function messageOf(error: unknown): string {
  return error instanceof LibvirtError ? formatLibvirtError(error) : errorMessage(error);
}

function isMigrating({ status }: VirtualMachineInstance): boolean {
  const state = status?.migrationState;
  return Boolean(state?.startTimestamp) && !state?.endTimestamp && !state?.completed && !state?.failed;
}

/** libvirt would let the call wait for the whole migration, and everything else of this domain with it. */
function refuseWhileMigrating(steps: readonly DiskStep[]): void {
  if (steps.length === 0) return;
  const names = steps.map(({ disk }) => disk.name).join(', ');
  throw new LauncherError(
    'MIGRATING',
    `the disks of a guest that is being migrated cannot change: ${names} will follow when the migration has ended`,
  );
}

function throwAll(failures: readonly Failure[]): void {
  const [first] = failures;
  if (!first) return;
  const worst = failures.find(({ code }) => code === 'HOTPLUG_FAILED') ?? first;
  throw new LauncherError(worst.code, failures.map(({ text }) => text).join('; '));
}
