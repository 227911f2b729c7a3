import {
  diskTargetsOf,
  type HotPlugVolume,
  hotPlugKindOf,
  hotPlugVolumesOf,
  isUtilityVolume,
  isVolumeOf,
  type VirtualMachineInstance,
  type VmiEvent,
} from '../../../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../../../base/index.ts';
import {
  type BlockDevice,
  CgroupError,
  type DeviceCgroup,
  deviceCgroupOf,
  deviceNodeMaker,
  type HostMounts,
  type SharedRecordFiles,
  type Storage,
  setBlockDevices,
} from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import { MountRecords } from '../mount-records.ts';
import type { HookContext, HookRelease, HookResult, HookView, HostHook } from '../work/index.ts';
import { Attachment } from './attachment.ts';
import { type LauncherDisks, openDisksOf, openLauncherDisks } from './launcher-disks.ts';
import { hotPlugRecord, type PluggedEntry } from './mount-record.ts';
import type { Wanted } from './plug.ts';
import { type HotPlugFacts, PlugRun } from './plug-run.ts';
import { standardDevices } from './standard-devices.ts';

export interface HotPlugOptions {
  readonly nodeName: string;
  /** The pods' directory, as this process sees it. */
  readonly podsDir: string;
  /** The same, as the machine sees it. */
  readonly machinePodsDir: string;
  /** The machine's root directory, as this process sees it. */
  readonly hostRoot: string;
  readonly procDir?: string;
  /** A process in the machine's namespaces; process 1 unless given. */
  readonly hostPid?: number;
}

export interface HotPlugDeps {
  readonly mounts: HostMounts;
  readonly storage: Storage;
  /** Upstream's directory `hotplug-volume-mount-state`. */
  readonly plugRecords: SharedRecordFiles;
}

/** Where its devices were allowed. */
export type HotPlugState = { readonly cgroup: { readonly v1?: string; readonly v2: readonly string[] } };

const waitMs = 1_000;
const none: HotPlugFacts = { volumes: [], awaited: {}, failed: {} };

/**
 * Volumes that come to a launcher while it runs, and those that a start finds plugged already: device nodes with their rules,
 * mounted images and directories (pkg/virt-handler/hotplug-disk/mount.go). One volume that fails keeps no other from its guest.
 */
export function hotPlugVolumes(
  options: HotPlugOptions,
  deps: HotPlugDeps,
): HostHook<'hotplug-volumes', HotPlugFacts, HotPlugState> {
  const volumes = new HotPlugVolumes(options, deps);
  return {
    name: 'hotplug-volumes',
    leaves: (vmi) => hotPlugVolumesOf(vmi).length > 0,
    readFacts,
    readState,
    prepare: (context) => volumes.prepare(context),
    adjust: (context) => volumes.adjust(context),
    settle: (context) => volumes.settle(context),
    mayObserve: ({ vmi, facts }) => hotPlugVolumesOf(vmi).length > 0 || (facts?.volumes.length ?? 0) > 0,
    observe: async (view) => ({ mountedVolumes: volumes.mounted(view) }),
    release: (context) => volumes.release(context),
  };
}

function readFacts(kept: unknown): HotPlugFacts | undefined {
  const texts = (value: unknown) =>
    Object.fromEntries(
      Object.entries(isRecord(value) ? value : {}).filter(
        (entry): entry is [string, string] => typeof entry[1] === 'string',
      ),
    );
  if (!isRecord(kept)) return undefined;
  return { volumes: strings(kept.volumes), awaited: texts(kept.awaited), failed: texts(kept.failed) };
}

function readState(kept: unknown): HotPlugState | undefined {
  const cgroup = memberAt(kept, 'cgroup');
  if (!isRecord(cgroup)) return undefined;
  return { cgroup: { ...(typeof cgroup.v1 === 'string' && { v1: cgroup.v1 }), v2: strings(cgroup.v2) } };
}

function strings(value: unknown): string[] {
  return listOf(value).filter((each) => typeof each === 'string');
}

class HotPlugVolumes {
  readonly #options: Required<HotPlugOptions>;
  readonly #mounts: HostMounts;
  readonly #storage: Storage;
  readonly #records: MountRecords<PluggedEntry>;

  constructor(options: HotPlugOptions, { mounts, storage, plugRecords }: HotPlugDeps) {
    this.#options = { procDir: '/proc', hostPid: 1, ...options };
    this.#mounts = mounts;
    this.#storage = storage;
    this.#records = new MountRecords(plugRecords, hotPlugRecord(options.machinePodsDir));
  }

  /** A guest neither starts nor arrives without what it asks for. */
  async prepare(context: HookContext<HotPlugState>): Promise<HookResult<HotPlugFacts>> {
    const { facts, errors } = await this.#plug(context);
    if (errors.length > 0) throw errors[0];
    const [because] = Object.values(facts.awaited);
    if (because !== undefined) return { kind: 'wait', afterMs: waitMs, because };
    return done(facts, []);
  }

  /** A guest that runs is told of the other volumes, and of a volume that does not come its owner. */
  async adjust(context: HookContext<HotPlugState>): Promise<HookResult<HotPlugFacts>> {
    const { facts } = await this.#plug(context);
    const events = Object.values(facts.failed).map(
      (message): VmiEvent => ({ type: 'Warning', reason: 'HotplugFailed', message }),
    );
    return done(facts, events);
  }

  /**
   * Takes away what the VMI does not ask for any more and its domain has let go. Not every settling is asked for on behalf of
   * volumes, and one volume may be let go before another: what QEMU may have open stays.
   */
  async settle(context: HookContext<HotPlugState, HotPlugFacts>): Promise<HookResult<HotPlugFacts>> {
    const { uid, vmi, launcherPid, domain } = context;
    const entries = (await this.#records.read(uid)) ?? [];
    const held = domain && diskTargetsOf(domain);
    const isKept = (entry: PluggedEntry) => isVolumeOf(vmi, volumeOf(entry)) || (held?.has(volumeOf(entry)) ?? true);
    const old = entries.filter((entry) => !isKept(entry));
    if (old.length === 0) return done(this.#settledFacts(context), []);
    const kept = await this.#devicesOf(entries.filter(isKept));
    const failures = await this.#remove(uid, old, async (deny) => {
      const change = { allow: kept, deny, standard: () => standardDevices(vmi, launcherPid, this.#options) };
      await setBlockDevices(this.#cgroupOf(launcherPid), change);
    });
    if (failures.length > 0) throw failures[0];
    return done(this.#settledFacts(context), []);
  }

  /** Why others do not come is known from their last try: without it a guest that waits for one would be taken for a healthy one. */
  #settledFacts({ vmi, launcherPid, given = none }: HookContext<HotPlugState, HotPlugFacts>): HotPlugFacts {
    const volumes = this.mounted({ vmi, launcherPid, facts: undefined });
    const stillWanted = (texts: HotPlugFacts['failed']) =>
      Object.fromEntries(
        Object.entries(texts).filter(([volume]) => isVolumeOf(vmi, volume) && !volumes.includes(volume)),
      );
    return { volumes, awaited: stillWanted(given.awaited), failed: stillWanted(given.failed) };
  }

  /** Everything that was plugged; the cgroup ends with the launcher, which may take its time. */
  async release({ uid, state }: HookRelease<HotPlugState>): Promise<void> {
    const entries = (await this.#records.read(uid)) ?? [];
    const failures = await this.#remove(uid, entries, async (deny) => {
      if (!state || deny.length === 0) return;
      await setBlockDevices(state.cgroup, { allow: [], deny }).catch((error: unknown) => {
        if (!(error instanceof CgroupError)) throw error;
      });
    });
    if (failures.length > 0) throw failures[0];
    await this.#records.end(uid, entries);
  }

  /** Names of volumes that are in the launcher. */
  mounted({ vmi, launcherPid, facts }: Pick<HookView<HotPlugFacts>, 'vmi' | 'launcherPid' | 'facts'>): string[] {
    const names = new Set([...hotPlugVolumesOf(vmi).map(({ name }) => name), ...(facts?.volumes ?? [])]);
    if (names.size === 0) return [];
    return this.#withDisks(vmi, launcherPid, (disks) => [...names].filter((name) => disks?.has(name)));
  }

  async #plug(context: HookContext<HotPlugState>): Promise<{ facts: HotPlugFacts; errors: unknown[] }> {
    const { vmi, launcherPid } = context;
    const volumes = hotPlugVolumesOf(vmi).filter(({ isWanted }) => isWanted);
    if (volumes.length === 0) return { facts: none, errors: [] };
    const disks = this.#open(vmi, launcherPid);
    if (!disks) {
      const problem = `the launcher's pod has no directory for hot-plugged volumes, so ${volumes[0]?.name} cannot be plugged`;
      const error = new HostError('HOTPLUG_DISABLED', `${problem}: restart the VM, without disableHotplug`);
      return { facts: { ...none, failed: { [volumes[0]?.name ?? '']: error.message } }, errors: [error] };
    }
    try {
      return await this.#plugInto(disks, volumes, context);
    } finally {
      disks.close();
    }
  }

  async #plugInto(disks: LauncherDisks, volumes: readonly HotPlugVolume[], context: HookContext<HotPlugState>) {
    const recorded = [...((await this.#records.read(context.uid)) ?? [])];
    const record = async (name: string) => {
      const { podUid } = disks;
      if (!recorded.some((entry) => entry.podUid === podUid && entry.name === name)) recorded.push({ podUid, name });
      // Another agent may have taken it out meanwhile.
      await this.#records.add(context.uid, [{ podUid, name }]);
    };
    const { procDir } = this.#options;
    const deps = {
      disks,
      mounts: this.#mounts,
      storage: this.#storage,
      procDir,
      makeNode: await deviceNodeMaker(),
      record,
    };
    const run = new PlugRun(deps);
    try {
      const attachments = new Map<string, Attachment>();
      for (const volume of volumes) await run.look(this.#wanted(volume, context, attachments));
      // What a guest still uses stays allowed: volumes that it is to let go, and those that cannot be plugged anew.
      const others = recorded.filter((entry) => !run.hasTask(volumeOf(entry)));
      const devices = [...run.devices, ...(await this.#devicesOf(others))];
      if (devices.length > 0) await run.allowDevices(() => this.#allow(devices, context));
      await run.carryOut();
    } finally {
      run.close();
    }
    return { facts: run.facts, errors: run.errors };
  }

  /** `attachments`: by pod, so that its process is asked for once. */
  #wanted(
    { name, attachPodUid, isAttached }: HotPlugVolume,
    { uid, vmi, purpose }: HookContext<HotPlugState>,
    attachments: Map<string, Attachment>,
  ): Wanted {
    const { nodeName } = this.#options;
    const kind = hotPlugKindOf(vmi, name, nodeName);
    const user = { owner: uid, what: `volume ${name} of VMI ${uid}` };
    if (kind === 'block' && isUtilityVolume(vmi, name)) {
      const problem = `volume ${name} is for the VM's own files and its claim is a block device: take one with a file system`;
      return {
        volume: name,
        kind,
        attachment: undefined,
        user,
        isAttached,
        refusal: new HostError('NOT_SUPPORTED', problem),
      };
    }
    const target = memberAt(vmi.status?.migrationState, 'targetAttachmentPodUID');
    const podUid = purpose === 'incoming' ? (typeof target === 'string' ? target : '') : attachPodUid;
    if (podUid === '') return { volume: name, kind, attachment: undefined, user, isAttached };
    const attachment = attachments.get(podUid) ?? new Attachment(podUid, this.#options);
    attachments.set(podUid, attachment);
    return { volume: name, kind, attachment, user, isAttached };
  }

  /** One change for all of them, before there is a node of any. */
  async #allow(allow: readonly BlockDevice[], { vmi, launcherPid, state }: HookContext<HotPlugState>): Promise<void> {
    const cgroup = this.#cgroupOf(launcherPid);
    const saved: HotPlugState = { cgroup };
    if (JSON.stringify(state.current) !== JSON.stringify(saved)) await state.save(saved);
    await setBlockDevices(cgroup, {
      allow,
      deny: [],
      standard: () => standardDevices(vmi, launcherPid, this.#options),
    });
  }

  #cgroupOf(launcherPid: number): DeviceCgroup {
    const { procDir, hostRoot, hostPid } = this.#options;
    return deviceCgroupOf(launcherPid, { procDir, hostRoot, hostPid });
  }

  async #devicesOf(entries: readonly PluggedEntry[]): Promise<BlockDevice[]> {
    const devices: BlockDevice[] = [];
    for (const { podUid, name } of entries) {
      const disks = openDisksOf(podUid, this.#disksOptions);
      const there = disks?.at(name);
      disks?.close();
      if (there?.kind === 'block') devices.push(there.device);
    }
    return devices;
  }

  /**
   * Denied first: a node that is there shows what is still to be denied. What is gone, and what was taken away, is taken out of the
   * record; what fails stays in it.
   */
  async #remove(
    uid: string,
    old: readonly PluggedEntry[],
    deny: (devices: readonly BlockDevice[]) => Promise<void>,
  ): Promise<unknown[]> {
    if (old.length === 0) return [];
    await deny(await this.#devicesOf(old));
    const failures: unknown[] = [];
    const gone: PluggedEntry[] = [];
    for (const entry of old) {
      await this.#removeOne(entry).then(
        () => gone.push(entry),
        (error: unknown) => failures.push(error),
      );
    }
    await this.#records.drop(uid, gone);
    return failures;
  }

  async #removeOne({ podUid, name }: PluggedEntry): Promise<void> {
    const disks = openDisksOf(podUid, this.#disksOptions);
    try {
      const there = disks?.at(name).kind;
      // A link, a pipe or a socket is the tenant's own.
      if (there !== undefined && there !== 'none' && there !== 'foreign') await disks?.remove(name);
    } finally {
      disks?.close();
    }
  }

  #withDisks<T>(vmi: VirtualMachineInstance, launcherPid: number, use: (disks: LauncherDisks | undefined) => T): T {
    const disks = this.#open(vmi, launcherPid);
    try {
      return use(disks);
    } finally {
      disks?.close();
    }
  }

  #open(vmi: VirtualMachineInstance, launcherPid: number): LauncherDisks | undefined {
    return openLauncherDisks(Object.keys(vmi.status?.activePods ?? {}), launcherPid, this.#disksOptions);
  }

  get #disksOptions() {
    const { machinePodsDir, procDir } = this.#options;
    return { mounts: this.#mounts, machinePodsDir, procDir };
  }
}

function volumeOf({ name }: PluggedEntry): string {
  return name.replace(/\.img$/, '');
}

function done(facts: HotPlugFacts, events: readonly VmiEvent[]): HookResult<HotPlugFacts> {
  const summary = facts.volumes.join(', ');
  return { kind: 'done', facts, events, ...(summary !== '' && { summary }) };
}
