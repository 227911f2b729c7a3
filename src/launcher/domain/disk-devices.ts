import type { Disk, DiskTarget, VirtualMachineInstance } from '../../api/index.ts';
import type { ConverterContext, ResolvedDisk } from './context.ts';
import { cpuShape } from './cpu.ts';
import { ConvertError, invalid } from './errors.ts';
import { type IoThreadPlan, ioThreadElements } from './io-threads.ts';
import { userAlias } from './names.ts';
import { pciAddress } from './pci.ts';
import { type VirtioStyle, virtioStyle } from './virtio.ts';
import { type DiskEntry, diskEntries, statusOf } from './volumes.ts';
import type { XmlContent } from './xml.ts';

const prefixes = { virtio: 'vd', sata: 'sd', scsi: 'sd', usb: 'sd' } as const;
const buses = Object.keys(prefixes);
const errorPolicies = ['stop', 'ignore', 'report', 'enospace'];
const reservationSocket = '/var/run/kubevirt/daemons/pr/pr-helper.sock';

export interface DiskPlan {
  readonly entry: DiskEntry;
  readonly kind: 'disk' | 'lun' | 'cdrom';
  readonly bus: keyof typeof prefixes;
  readonly targetDevice: string;
  readonly target: DiskTarget;
}

export interface DiskSettings {
  readonly context: Pick<ConverterContext, 'disks' | 'options'>;
  readonly virtio: VirtioStyle;
  /** Queues of a virtio disk; 0 leaves it to QEMU. */
  readonly blockQueues: number;
  readonly ioThreads: IoThreadPlan;
}

export function diskSettings(
  vmi: VirtualMachineInstance,
  context: DiskSettings['context'],
  ioThreads: IoThreadPlan,
): DiskSettings {
  const { blockMultiQueue } = vmi.spec.domain.devices ?? {};
  return { context, virtio: virtioStyle(vmi), blockQueues: blockMultiQueue ? cpuShape(vmi).count : 0, ioThreads };
}

/** Bus and target name of every disk; names the guest already uses (`status.volumeStatus[].target`) stay. */
export function planDisks(vmi: VirtualMachineInstance): DiskPlan[] {
  return planEntries(vmi, diskEntries(vmi), new Map());
}

/** `inUse`: target names of the running domain by disk name; no other disk gets one of them, also of a disk that is leaving. */
export function planEntries(
  vmi: VirtualMachineInstance,
  entries: readonly DiskEntry[],
  inUse: ReadonlyMap<string, string>,
): DiskPlan[] {
  const drafts = entries.map((entry) => ({ entry, ...kindAndBus(entry.disk) }));
  const known = knownTargets(vmi, drafts, inUse);
  const taken = new Set([...inUse.values(), ...known.values()]);
  return drafts.map((draft) => {
    const targetDevice = known.get(draft.entry.disk.name) ?? freeName(prefixes[draft.bus], taken);
    taken.add(targetDevice);
    return { ...draft, targetDevice };
  });
}

/** A name that the status keeps for one disk and the domain gives to another is the domain's. */
function knownTargets(
  vmi: VirtualMachineInstance,
  drafts: readonly Pick<DiskPlan, 'entry'>[],
  inUse: ReadonlyMap<string, string>,
): Map<string, string> {
  const taken = new Set(inUse.values());
  const known = new Map<string, string>();
  for (const { entry } of drafts) {
    const { name } = entry.disk;
    const live = inUse.get(name);
    const kept = statusOf(vmi, name)?.target;
    if (live) known.set(name, live);
    else if (kept && !taken.has(kept)) known.set(name, kept);
  }
  return known;
}

function kindAndBus(disk: Disk): Pick<DiskPlan, 'kind' | 'bus' | 'target'> {
  const kind = disk.cdrom ? 'cdrom' : disk.lun ? 'lun' : 'disk';
  const target = disk[kind] ?? {};
  const bus = target.bus || 'sata';
  if (!buses.includes(bus)) {
    throw invalid(`spec.domain.devices.disks[${disk.name}].${kind}.bus`, `${bus} is none of ${buses.join(', ')}`);
  }
  return { kind, bus, target };
}

/** `vda`..`vdz`, `vdaa`.. */
export function driveName(prefix: string, index: number): string {
  const letter = String.fromCharCode(97 + (index % 26));
  return index < 26 ? prefix + letter : driveName(prefix, Math.floor(index / 26) - 1) + letter;
}

/** The reverse of `driveName`. */
function driveIndex(name: string): number {
  return [...name.slice(2)].reduce((index, letter) => (index + 1) * 26 + letter.charCodeAt(0) - 97, -1);
}

function freeName(prefix: string, taken: ReadonlySet<string>): string {
  let index = 0;
  while (taken.has(driveName(prefix, index))) index++;
  return driveName(prefix, index);
}

export function diskElement(plan: DiskPlan, settings: DiskSettings): XmlContent {
  const { disk } = plan.entry;
  const resolved = resolvedDisk(plan, settings.context);
  const isReadOnly = plan.target.readonly ?? (plan.kind === 'cdrom' || resolved?.readonly === true);
  return {
    '@type': !resolved || resolved.isBlock ? 'block' : 'file',
    '@device': plan.kind,
    '@model': plan.bus === 'virtio' ? settings.virtio.model : undefined,
    driver: driverElement(plan, resolved, settings),
    ...(resolved && { source: sourceElement(plan, resolved) }),
    ...backingElement(resolved),
    ...blockIoElement(disk, resolved),
    target: { '@dev': plan.targetDevice, '@bus': plan.bus, '@tray': plan.target.tray || undefined },
    ...((isReadOnly || resolved?.readonly) && { readonly: {} }),
    ...(disk.shareable && { shareable: {} }),
    serial: serialOf(disk),
    ...bootElement(disk),
    alias: userAlias('spec.domain.devices.disks[]', disk.name),
    ...addressElement(plan),
  };
}

function resolvedDisk(plan: DiskPlan, context: DiskSettings['context']): ResolvedDisk | undefined {
  const { disk, volume } = plan.entry;
  if (!volume) return undefined;
  const resolved = context.disks.get(volume.name);
  if (resolved) return resolved;
  throw new ConvertError('MISSING_VOLUME', `spec.volumes[${disk.name}]: its file was not prepared on this node`);
}

function driverElement(plan: DiskPlan, resolved: ResolvedDisk | undefined, settings: DiskSettings): XmlContent {
  const { disk } = plan.entry;
  const field = `spec.domain.devices.disks[${disk.name}]`;
  const errorPolicy = disk.errorPolicy || 'stop';
  if (!errorPolicies.includes(errorPolicy)) {
    throw invalid(`${field}.errorPolicy`, `${errorPolicy} is none of ${errorPolicies.join(', ')}`);
  }
  const cache = disk.cache || resolved?.cache;
  if (disk.shareable && cache !== 'none') {
    throw invalid(`${field}.shareable`, `needs cache mode none, but it is ${cache ?? 'not set'}: set cache to "none"`);
  }
  const preallocated = settings.context.options?.preallocatedVolumes?.includes(disk.name);
  return {
    '@name': 'qemu',
    '@type': resolved?.format ?? 'raw',
    '@cache': cache,
    '@error_policy': errorPolicy,
    '@io': disk.io || resolved?.io || undefined,
    '@discard': plan.kind !== 'cdrom' && !preallocated ? 'unmap' : undefined,
    '@queues': plan.bus === 'virtio' && settings.blockQueues > 0 ? settings.blockQueues : undefined,
    ...ioThreadElements(settings.ioThreads, plan),
    ...(plan.bus === 'virtio' && settings.virtio.driver),
  };
}

function sourceElement(plan: DiskPlan, resolved: ResolvedDisk): XmlContent {
  const source = {
    ...(resolved.isBlock ? { '@dev': resolved.path } : { '@file': resolved.path }),
    ...dataStoreElement(resolved),
    ...(resolved.keepsOwner && { seclabel: { '@model': 'dac', '@relabel': 'no' } }),
  };
  if (!plan.target.reservation || plan.kind !== 'lun') return source;
  const helper = { '@type': 'unix', '@path': reservationSocket, '@mode': 'client' };
  return { ...source, reservations: { '@managed': 'no', '@migration': 'yes', source: helper } };
}

/** libvirt reads it since 10.10; an older one passes it over, and QEMU finds the image by the header of the record. */
function dataStoreElement({ dataStore }: ResolvedDisk): XmlContent {
  if (!dataStore) return {};
  const source = dataStore.isBlock ? { '@dev': dataStore.path } : { '@file': dataStore.path };
  return { dataStore: { '@type': dataStore.isBlock ? 'block' : 'file', format: { '@type': 'raw' }, source } };
}

function backingElement(resolved: ResolvedDisk | undefined): XmlContent {
  const backing = resolved?.backing;
  if (!backing) return {};
  const source = backing.isBlock ? { '@dev': backing.path } : { '@file': backing.path };
  const backingStore = {
    '@type': backing.isBlock ? 'block' : 'file',
    format: { '@type': backing.format },
    source,
    // An empty one ends the chain: QEMU must not look for more in the image.
    backingStore: {},
  };
  return { backingStore };
}

function blockIoElement(disk: Disk, resolved: ResolvedDisk | undefined): XmlContent {
  const custom = disk.blockSize?.custom;
  const matched = disk.blockSize?.matchVolume;
  if (custom) return { blockio: blockIo(custom.logical, custom.physical, custom.discardGranularity) };
  if (!matched || matched.enabled === false || !resolved?.blockSize) return {};
  const { logical, physical, discardGranularity } = resolved.blockSize;
  return { blockio: blockIo(logical, physical, discardGranularity) };
}

function blockIo(logical?: number, physical?: number, discardGranularity?: number): XmlContent {
  return {
    '@logical_block_size': logical,
    '@physical_block_size': physical,
    '@discard_granularity': discardGranularity,
  };
}

/** What libvirt takes; its own message would not say which disk. */
const serialPattern = /^[A-Za-z0-9 _.+-]*$/;

function serialOf(disk: Disk): string | undefined {
  if (serialPattern.test(disk.serial ?? '')) return disk.serial || undefined;
  const allowed = 'letters, digits, blanks and "_", "-", ".", "+"';
  throw invalid(
    `spec.domain.devices.disks[${disk.name}].serial`,
    `${JSON.stringify(disk.serial)} may only have ${allowed}`,
  );
}

function bootElement(device: { name: string; bootOrder?: number }): XmlContent {
  if (device.bootOrder === undefined) return {};
  if (Number.isInteger(device.bootOrder) && device.bootOrder > 0) return { boot: { '@order': device.bootOrder } };
  throw invalid(`spec.domain.devices.disks[${device.name}].bootOrder`, 'must be a whole number above 0');
}

function addressElement(plan: DiskPlan): XmlContent {
  const field = `spec.domain.devices.disks[${plan.entry.disk.name}]`;
  if (plan.target.pciAddress) {
    if (plan.bus !== 'virtio') throw invalid(`${field}.${plan.kind}.pciAddress`, 'is only possible with bus virtio');
    return { address: pciAddress(`${field}.${plan.kind}.pciAddress`, plan.target.pciAddress) };
  }
  if (plan.bus !== 'scsi') return {};
  const unit = driveIndex(plan.targetDevice);
  return { address: { '@type': 'drive', '@controller': 0, '@bus': 0, '@unit': unit } };
}
