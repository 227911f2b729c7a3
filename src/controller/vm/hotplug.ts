import type { Disk, VirtualMachine, VirtualMachineInstance, Volume } from '../../api/index.ts';
import { isBeingDeleted } from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import { listed, named } from './by-name.ts';
import { isMoved } from './volume-migration.ts';

/** Volumes and disks that a VMI shall have. */
export interface PluggedVolumes {
  readonly volumes: readonly Volume[];
  readonly disks: readonly Disk[];
}

/**
 * What a VM's template says of hot-plugged volumes, applied to its running VMI (upstream: pkg/storage/hotplug). Undefined: the VMI is as
 * it shall be. Volumes that were there at the start stay, whatever the template says. A volume that is changed is taken out
 * first; it comes back when the VMI reports nothing of the old one any more. One that was to be moved to another claim stays: its content
 * is not copied. Upstream plugs nothing into a VM whose volumes are moved.
 */
export function pluggedVolumes(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): PluggedVolumes | undefined {
  const template = vm.spec.template?.spec;
  if (vmi?.status?.phase !== 'Running' || isBeingDeleted(vmi)) return undefined;
  const old = { volumes: listed(vmi.spec.volumes), disks: listed(vmi.spec.domain?.devices?.disks) };
  const wanted = { volumes: listed(template?.volumes), disks: listed(template?.domain?.devices?.disks) };
  const kept = keptVolumes(old.volumes, wanted.volumes, vm);
  const volumes = [...kept, ...newVolumes(vmi, wanted.volumes)];
  const disks = [...keptDisks(old.disks, wanted, volumes), ...newDisks(old.disks, wanted.disks, volumes)];
  return sameJson(volumes, old.volumes) && sameJson(disks, old.disks) ? undefined : { volumes, disks };
}

export function isHotpluggable({ persistentVolumeClaim, dataVolume }: Volume): boolean {
  return Boolean(persistentVolumeClaim?.hotpluggable || dataVolume?.hotpluggable);
}

function keptVolumes(old: readonly Volume[], wanted: readonly Volume[], vm: VirtualMachine): Volume[] {
  return old.filter((volume) => {
    const want = named(wanted, volume.name);
    if (!isHotpluggable(volume)) return true;
    return want !== undefined && (!isHotpluggable(want) || sameJson(want, volume) || isMoved(volume, want, vm));
  });
}

/** The VMI has an entry for a volume as long as it is on its way out. */
function newVolumes({ spec, status }: VirtualMachineInstance, wanted: readonly Volume[]): Volume[] {
  return wanted.filter((volume) => {
    const isKnown = named(spec.volumes ?? [], volume.name) || named(status?.volumeStatus ?? [], volume.name);
    return isHotpluggable(volume) && !isKnown;
  });
}

/** A CD-ROM drive stays when its medium goes. */
function keptDisks(
  old: readonly Disk[],
  wanted: { readonly volumes: readonly Volume[]; readonly disks: readonly Disk[] },
  volumes: readonly Volume[],
): Disk[] {
  return old.filter((disk) => {
    if (named(volumes, disk.name)) return true;
    const want = named(wanted.disks, disk.name);
    if (!want) return false;
    return !named(wanted.volumes, disk.name) || Boolean(want.cdrom && disk.cdrom);
  });
}

function newDisks(old: readonly Disk[], wanted: readonly Disk[], volumes: readonly Volume[]): Disk[] {
  return wanted.filter((disk) => {
    const volume = named(volumes, disk.name);
    return volume !== undefined && isHotpluggable(volume) && !named(old, disk.name);
  });
}
