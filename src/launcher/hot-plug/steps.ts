import { isTrackingRecord, type LiveDisk, type ResolvedDisk, type WantedDisk } from '../domain/index.ts';

export type DiskStep =
  | { readonly step: 'unplug'; readonly disk: LiveDisk }
  | { readonly step: 'setMedium'; readonly disk: LiveDisk; readonly medium: ResolvedDisk | undefined }
  | { readonly step: 'plug'; readonly disk: WantedDisk };

export interface DiskDifference {
  readonly live: readonly LiveDisk[];
  readonly wanted: readonly WantedDisk[];
  /** Volume name → what was found and can be opened. */
  readonly media: ReadonlyMap<string, ResolvedDisk>;
  readonly hotplugDir: string;
}

/** Only these can come and go while the guest runs. */
const pluggableBuses: readonly string[] = ['virtio', 'scsi'];

/**
 * What makes the disks of a running domain those of its VMI (upstream's `syncDisks` in pkg/virt-launcher/virtwrap/manager.go).
 * Disks that are there are known by their name, where upstream goes by the target, and one that the VMI still has is never
 * unplugged, whatever phase its volume is in: upstream takes it from the guest when the status says that it is on its way.
 */
export function diskSteps(difference: DiskDifference): DiskStep[] {
  return [...unplugs(difference), ...mediumChanges(difference), ...plugs(difference)];
}

function unplugs({ live, wanted, hotplugDir }: DiskDifference): DiskStep[] {
  const kept = new Set(wanted.map(({ name }) => name));
  return live
    .filter(({ source }) => isBelow(source, hotplugDir) || isTrackingRecord(source))
    .filter((disk) => pluggableBuses.includes(disk.bus) && !kept.has(disk.name))
    .map((disk) => ({ step: 'unplug', disk }));
}

/** A drive that the VMI no longer has stays until the next start, without its medium. */
function mediumChanges({ live, wanted, media, hotplugDir }: DiskDifference): DiskStep[] {
  const byName = new Map(wanted.map((disk) => [disk.name, disk]));
  return live.flatMap((disk): DiskStep[] => {
    const want = byName.get(disk.name);
    if (disk.device !== 'cdrom' || (want && want.kind !== 'cdrom')) return [];
    if (!want && pluggableBuses.includes(disk.bus)) return [];
    if (disk.source !== '' && !isBelow(disk.source, hotplugDir)) return [];
    const medium = mediumOf(want, media);
    if (medium === 'not-known' || disk.source === (medium?.path ?? '')) return [];
    return [{ step: 'setMedium', disk, medium }];
  });
}

function mediumOf(
  want: WantedDisk | undefined,
  media: ReadonlyMap<string, ResolvedDisk>,
): ResolvedDisk | undefined | 'not-known' {
  if (!want || want.volume === 'empty') return undefined;
  return (want.volume === 'mounted' && media.get(want.name)) || 'not-known';
}

function plugs({ live, wanted, media }: DiskDifference): DiskStep[] {
  const there = new Set(live.map(({ name }) => name));
  return wanted
    .filter((disk) => disk.volume === 'mounted' && !there.has(disk.name) && media.has(disk.name))
    .filter(({ bus }) => pluggableBuses.includes(bus))
    .map((disk) => ({ step: 'plug', disk }));
}

/** Names of the volumes whose files the difference depends on; only these are looked at. */
export function volumesToFind({ live, wanted }: Pick<DiskDifference, 'live' | 'wanted'>): string[] {
  const others = new Set(live.filter(({ device }) => device !== 'cdrom').map(({ name }) => name));
  return wanted.filter(({ name, volume }) => volume === 'mounted' && !others.has(name)).map(({ name }) => name);
}

function isBelow(file: string, dir: string): boolean {
  return file.startsWith(dir.endsWith('/') ? dir : `${dir}/`);
}
