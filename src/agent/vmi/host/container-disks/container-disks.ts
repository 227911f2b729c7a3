import type { VirtualMachineInstance } from '../../../../api/index.ts';
import { errorCode, type Logger, listOf, memberAt } from '../../../../base/index.ts';
import { type HostMounts, openNoFollow, type SafePath, type SharedRecordFiles } from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import { LauncherRoot } from '../launcher-root.ts';
import { MountRecords } from '../mount-records.ts';
import type { HookContext, HookRelease, HookResult, HookView, HostHook, HostSeen, Json } from '../work/index.ts';
import { Checksums, lacksChecksums, type SummedFile } from './checksums.ts';
import { mountFile, openKernelBoot, removeTraces, unmountAll } from './mount-file.ts';
import {
  containerDiskRecord,
  containerDisksDirectory,
  type MountEntry,
  type RecordPaths,
  socketOf,
} from './mount-records.ts';
import { bringsImagesBySidecars, podOf } from './pod-mode.ts';
import { findSidecar, openImage, type Sidecar } from './sidecar.ts';
import { kernelBootName, type WantedImage, wantedImages } from './wanted-disks.ts';

export interface ContainerDiskOptions extends RecordPaths {
  /** Empty: pods of all nodes count. */
  readonly nodeName: string;
  readonly procDir?: string;
}

export interface ContainerDiskDeps {
  readonly mounts: HostMounts;
  /** Upstream's directory `container-disk-mount-state`. */
  readonly records: SharedRecordFiles;
  readonly monotonicMs: () => number;
  readonly log: Logger;
}

/** What was mounted, for words. */
export type ContainerDiskFacts = { readonly mounted: readonly string[] };

/** Kept, so that leftovers of a VMI that is gone are looked for, and what was mounted is known to the next process. */
export type ContainerDiskState = { readonly mounts: true };

const lookAgainMs = 1_000;
/** As upstream: a side container that is not there by then is an error. */
const patienceMs = 60_000;

/** Mounts images of container disks and of kernel boot from their side containers into the launcher (pkg/virt-handler/container-disk). */
export function containerDisks(
  options: ContainerDiskOptions,
  deps: ContainerDiskDeps,
): HostHook<'container-disks', ContainerDiskFacts, ContainerDiskState> {
  const work = new ContainerDisks(options, deps);
  return {
    name: 'container-disks',
    // What it mounted stands in a record of its own.
    leaves: () => false,
    readState: (kept) => (memberAt(kept, 'mounts') === true ? { mounts: true } : undefined),
    readFacts: (kept) => ({ mounted: listOf(memberAt(kept, 'mounted')).filter((name) => typeof name === 'string') }),
    prepare: (context) => work.prepare(context),
    mayObserve: ({ vmi, facts }) => (facts?.mounted.length ?? 0) > 0 && lacksChecksums(vmi),
    observe: (context) => work.observe(context),
    release: (context) => work.release(context),
  };
}

class ContainerDisks {
  readonly #options: ContainerDiskOptions;
  readonly #deps: ContainerDiskDeps;
  readonly #records: MountRecords<MountEntry>;
  readonly #checksums: Checksums;
  /** UID → since when its side containers are waited for. */
  readonly #waiting = new Map<string, number>();

  constructor(options: ContainerDiskOptions, deps: ContainerDiskDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#records = new MountRecords(deps.records, containerDiskRecord(options));
    this.#checksums = new Checksums(deps.log);
  }

  async prepare(context: HookContext<ContainerDiskState>): Promise<HookResult<ContainerDiskFacts>> {
    const { uid, vmi, launcherPid, config, state } = context;
    const images = wantedImages(vmi);
    if (images.length === 0) return nothing;
    const launcher = new LauncherRoot(launcherPid, this.#options.procDir);
    const { imageVolume } = config;
    if (!bringsImagesBySidecars(vmi, launcher, { ...this.#options, imageVolume })) return nothing;
    const podUid = podOf(vmi, this.#options);
    if (podUid === undefined) throw new HostError('MOUNT_TARGET', 'the pod has no directory of container disks here');
    const sidecars = await this.#findAll(images, podUid, uid);
    if (typeof sidecars === 'string') return this.#wait(uid, sidecars);
    this.#waiting.delete(uid);
    if (!state.current) await state.save({ mounts: true });
    await this.#record(uid, podUid, images);
    await this.#mountAll(podUid, uid, images, sidecars);
    const mounted = images.flatMap(({ files }) => files.map(({ what }) => what));
    return { kind: 'done', facts: { mounted }, summary: `${mounted.join(', ')} mounted` };
  }

  /** Sums of what is mounted, where the status has none yet. */
  async observe({ uid, vmi }: HookView<ContainerDiskFacts>): Promise<HostSeen> {
    const imageChecksums = this.#checksums.of(uid, () => this.#summedFiles(vmi));
    return imageChecksums ? { imageChecksums } : {};
  }

  #summedFiles(vmi: VirtualMachineInstance): SummedFile[] {
    const podUid = podOf(vmi, this.#options);
    if (podUid === undefined) return [];
    const directory = `${podUid}/${containerDisksDirectory}`;
    return wantedImages(vmi).flatMap(({ target, files }) => {
      const within = target === kernelBootName ? `${directory}/${target}` : directory;
      return files.map(({ owner, name }) => ({
        owner,
        open: () => this.#deps.mounts.open(this.#options.machinePodsDir, `${within}/${name}`),
      }));
    });
  }

  async release({ uid }: Pick<HookRelease<Json>, 'uid'>): Promise<void> {
    this.#waiting.delete(uid);
    this.#checksums.forget(uid);
    const entries = await this.#records.read(uid);
    if (!entries) return;
    for (const podUid of new Set(entries.map((entry) => entry.podUid))) {
      const own = entries.filter((entry) => entry.podUid === podUid);
      await this.#releasePod(podUid, own);
    }
    await this.#records.end(uid, entries);
  }

  /** What is waited for, in words, when one is not there yet. */
  async #findAll(images: readonly WantedImage[], podUid: string, vmiUid: string): Promise<Sidecar[] | string> {
    const { procDir = '/proc', podsDir } = this.#options;
    const directory = openNoFollow(podsDir, `${podUid}/${containerDisksDirectory}`);
    try {
      const sidecars: Sidecar[] = [];
      for (const { what, target } of images) {
        const found = await findSidecar(directory, socketOf(target), what, { procDir, vmiUid });
        if (!found) return what;
        sidecars.push(found);
      }
      return sidecars;
    } finally {
      directory.close();
    }
  }

  #wait(uid: string, what: string): HookResult<ContainerDiskFacts> {
    const nowMs = this.#deps.monotonicMs();
    const sinceMs = this.#waiting.get(uid) ?? nowMs;
    this.#waiting.set(uid, sinceMs);
    const because = `the side container with the image of ${what} is not ready`;
    if (nowMs - sinceMs <= patienceMs) return { kind: 'wait', afterMs: lookAgainMs, because };
    const advice = 'look at the containers of the launcher pod: is the image there, and can it be pulled?';
    throw new HostError('DISK_CONTAINER', `${because} after ${patienceMs / 1000} s: ${advice}`);
  }

  /** Before anything is made: what is not written down is not cleaned up by the next agent. */
  async #record(uid: string, podUid: string, images: readonly WantedImage[]): Promise<void> {
    const wanted = images.map(({ target }): MountEntry => ({ podUid, target, socket: socketOf(target) }));
    await this.#records.add(uid, wanted);
  }

  async #mountAll(
    podUid: string,
    vmiUid: string,
    images: readonly WantedImage[],
    sidecars: readonly Sidecar[],
  ): Promise<void> {
    const directory = this.#openTargets(podUid);
    try {
      for (const [index, image] of images.entries()) {
        const sidecar = sidecars[index];
        if (sidecar) await this.#mountImage(directory, image, sidecar, vmiUid);
      }
    } finally {
      directory.close();
    }
  }

  async #mountImage(
    directory: SafePath,
    { target, files }: WantedImage,
    sidecar: Sidecar,
    vmiUid: string,
  ): Promise<void> {
    const { procDir = '/proc' } = this.#options;
    const within = target === kernelBootName ? openKernelBoot(directory) : directory;
    try {
      for (const file of files) {
        const image = openImage({ ...sidecar, what: file.what }, file.imagePath, { procDir, vmiUid });
        try {
          await mountFile(this.#deps.mounts, within, file, { image, pid: sidecar.pid });
        } finally {
          image.close();
        }
      }
    } finally {
      if (within !== directory) within.close();
    }
  }

  async #releasePod(podUid: string, entries: readonly MountEntry[]): Promise<void> {
    let directory: SafePath;
    try {
      directory = this.#openTargets(podUid);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return;
      throw error;
    }
    try {
      await unmountAll(this.#deps.mounts, directory);
      for (const entry of entries) removeTraces(directory, entry);
    } finally {
      directory.close();
    }
  }

  #openTargets(podUid: string): SafePath {
    return this.#deps.mounts.open(this.#options.machinePodsDir, `${podUid}/${containerDisksDirectory}`);
  }
}

const nothing: HookResult<ContainerDiskFacts> = { kind: 'done', facts: { mounted: [] } };
