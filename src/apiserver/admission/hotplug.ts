import type { Disk, VirtualMachineInstance, Volume } from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import type { FieldError } from '../errors.ts';

type Spec = VirtualMachineInstance['spec'];
type Status = VirtualMachineInstance['status'];

/** A change of a running VMI's volumes and disks. The old status says which of them came with the start. */
export interface VolumeChange {
  readonly old: Spec;
  readonly wanted: Spec;
  readonly status: Status;
}

/**
 * What cannot be plugged into a guest or out of it, in upstream's words (AdmitHotplugStorage in pkg/storage/admitters). Specs have
 * their form already.
 */
export function hotplugProblems(change: VolumeChange): FieldError[] {
  const problem = countProblem(change.wanted) ?? permanentProblem(change) ?? pluggedProblem(change);
  return problem === undefined ? [] : [{ field: 'spec', reason: 'FieldValueInvalid', message: problem }];
}

const named = <T extends { readonly name: string }>(list: readonly T[] | undefined, name: string) =>
  (list ?? []).find((one) => one.name === name);

const diskOf = ({ domain }: Spec, name: string): Disk | undefined => named(domain.devices?.disks, name);

/** A drive without a medium needs no volume. */
function countProblem({ domain, volumes = [] }: Spec): string | undefined {
  const { disks = [], filesystems = [] } = domain.devices ?? {};
  const declared = volumes.filter(({ memoryDump }) => !memoryDump).length;
  const required = filesystems.length + disks.filter(({ name, cdrom }) => !cdrom || named(volumes, name)).length;
  if (declared === required) return undefined;
  return `mismatch between volumes declared (${declared}) and required (${required})`;
}

function isPermanent(status: Status, name: string): boolean {
  const entry = named(status?.volumeStatus, name);
  return entry !== undefined && !entry.hotplugVolume;
}

function permanentProblem({ old, wanted, status }: VolumeChange): string | undefined {
  const permanent = (spec: Spec) => (spec.volumes ?? []).filter(({ name }) => isPermanent(status, name));
  const [before, after] = [permanent(old), permanent(wanted)];
  if (before.length !== after.length) return 'Number of permanent volumes has changed';
  for (const volume of after) {
    const { name } = volume;
    const known = named(before, name);
    if (!known) return `permanent volume ${name}, not found`;
    if (!sameJson(volume, known)) return `permanent volume ${name}, changed`;
    if (!sameJson(diskOf(wanted, name), diskOf(old, name))) return `permanent disk ${name}, changed`;
  }
  return undefined;
}

function pluggedProblem({ old, wanted, status }: VolumeChange): string | undefined {
  const plugged = (wanted.volumes ?? []).filter(({ name }) => !isPermanent(status, name));
  const problems = plugged.map((volume) => {
    const known = named(old.volumes, volume.name);
    return known ? keptProblem(volume, known, old, wanted) : newProblem(volume, old, wanted);
  });
  return problems.find((problem) => problem !== undefined);
}

function keptProblem(volume: Volume, known: Volume, old: Spec, wanted: Spec): string | undefined {
  const { name } = volume;
  if (!sameJson(volume, known)) return `hotplug volume ${name}, changed`;
  if (volume.memoryDump) return undefined;
  const disk = diskOf(wanted, name);
  if (!disk) return `volume ${name} doesn't have a matching disk`;
  return sameJson(disk, diskOf(old, name)) ? undefined : `hotplug disk ${name}, changed`;
}

function newProblem({ name, dataVolume, persistentVolumeClaim, memoryDump }: Volume, old: Spec, wanted: Spec) {
  if (!dataVolume && !persistentVolumeClaim && !memoryDump) return `volume ${name} is not a PVC or DataVolume`;
  if (memoryDump) return undefined;
  const disk = diskOf(wanted, name);
  if (!disk) return `disk ${name} does not exist`;
  return diskOf(old, name) ? undefined : newDiskProblem(disk);
}

function newDiskProblem({ name, disk, lun, dedicatedIOThread, bootOrder }: Disk): string | undefined {
  const what = 'Hotplug configuration for';
  const bus = (disk ?? lun)?.bus ?? '';
  if (!disk && !lun) return `${what} [${name}] requires diskDevice of type 'disk' or 'lun' to be used.`;
  if (disk && bus !== 'scsi' && bus !== 'virtio') {
    return `${what} disk [${name}] requires bus to be 'scsi' or 'virtio'. [${bus}] is not permitted.`;
  }
  if (!disk && bus !== 'scsi') return `${what} LUN [${name}] requires bus to be 'scsi'. [${bus}] is not permitted.`;
  if (dedicatedIOThread && bus !== 'virtio') return `${what} [${name}] requires virtio bus for IOThreads.`;
  const isOrdered = bootOrder === undefined || bootOrder >= 1;
  return isOrdered ? undefined : 'spec.domain.devices.disks[1] must have a boot order > 0, if supplied';
}
