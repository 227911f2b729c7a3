import path from 'node:path';
import { isRecord } from '../../base/index.ts';
import { type FieldError, invalidField, refusedField } from '../errors.ts';
import { at, type JsonObject, numberAt, objectsAt, stringAt } from '../object.ts';
import { checkCloudInit } from './cloud-init-rules.ts';
import { amountOf, duplicates, presentMembers, type SpecRules } from './spec-rules.ts';
import { pciPattern } from './vmi-network-rules.ts';

const atMostOne = { serviceAccount: 'serviceAccount', downwardMetrics: 'downwardMetric', memoryDump: 'memory dump' };

/** What KubeVirt's webhook says of volumes (upstream: validateVolumes in vmi-create-admitter.go). */
export function checkVolumes({ spec, field }: SpecRules): FieldError[] {
  const list = `${field}.volumes`;
  const volumes = objectsAt(spec, 'volumes');
  const counts = volumes.flatMap((volume, index) => {
    const sources = presentMembers(volume, ['name']);
    if (sources.length === 1) return [];
    const found = sources.length === 0 ? 'none' : sources.join(', ');
    return [invalidField(`${list}[${index}]`, volume.name, `must have exactly one source, has ${found}`)];
  });
  const several = Object.entries(atMostOne).flatMap(([source, what]) => {
    const isOne = volumes.filter((volume) => isRecord(volume[source])).length < 2;
    return isOne ? [] : [refusedField(list, `${list} must have max one ${what} volume set`)];
  });
  const sources = volumes.flatMap((volume, index) => checkSource(volume, `${list}[${index}]`));
  return [...duplicates(volumes, list), ...counts, ...several, ...sources];
}

function checkSource(volume: JsonObject, path: string): FieldError[] {
  const { hostDisk } = volume;
  const found: FieldError[] = [];
  // Go's clients always send a capacity: 0 is none.
  if (isRecord(hostDisk) && hostDisk.type === 'Disk' && amountOf(hostDisk.capacity)) {
    const where = `${path}.hostDisk.capacity`;
    const words = `${where} is allowed to pass only with ${path}.hostDisk.type equal to 'DiskOrCreate'`;
    found.push(refusedField(where, words));
  }
  const image = stringAt(volume, 'containerDisk', 'path');
  if (image) found.push(...checkPath(image, `${path}.containerDisk`));
  for (const [source, member] of [
    ['configMap', 'name'],
    ['secret', 'secretName'],
    ['serviceAccount', 'serviceAccountName'],
  ] as const) {
    const where = `${path}.${source}.${member}`;
    if (isRecord(volume[source]) && !stringAt(volume, source, member)) {
      found.push(refusedField(where, `${where} is a required field`));
    }
  }
  return [...found, ...checkCloudInit(volume, path)];
}

/** They come to a guest that runs: a new VMI has none. */
export function checkUtilityVolumes(spec: unknown, field: string): FieldError[] {
  if (objectsAt(spec, 'utilityVolumes').length === 0) return [];
  const words = 'cannot create VMI with utility volumes in spec, utility volumes can only be added via hotplug';
  return [refusedField(`${field}.utilityVolumes`, words)];
}

/** Of a file in an image (upstream: ValidatePath in pkg/storage/admitters/disks.go). */
export function checkPath(text: string, field: string): FieldError[] {
  if (text === '/') return [refusedField(field, `${field} must not point to root`)];
  const isClean = path.posix.join('/', text) === text;
  const words = `${field} must be an absolute path to a file without relative components`;
  return isClean ? [] : [refusedField(field, words)];
}

/** What KubeVirt's webhook says of disks (upstream: pkg/storage/admitters/disks.go, and validateBootOrder). */
export function checkDisks({ spec, field, isWhole }: SpecRules): FieldError[] {
  const list = `${field}.domain.devices.disks`;
  const disks = objectsAt(spec, 'domain', 'devices', 'disks');
  const volumes = new Map(objectsAt(spec, 'volumes').map((volume) => [volume.name, volume]));
  const errors = disks.flatMap((disk, index) => {
    const own = `${list}[${index}]`;
    const targets = ['disk', 'lun', 'cdrom'].filter((name) => isRecord(disk[name]));
    const found: FieldError[] = [];
    if (targets.length > 1) found.push(invalidField(own, disk.name, 'can be only one of disk, lun, cdrom'));
    const volume = volumes.get(disk.name);
    // An empty CD-ROM drive has no volume.
    if (!volume && !targets.includes('cdrom')) {
      found.push(invalidField(`${own}.name`, disk.name, 'there is no volume of this name'));
    }
    const target = targets[0] ?? 'disk';
    return [
      ...found,
      ...(volume ? checkUse(disk, volume, own) : []),
      ...checkBus(disk, target, own, isWhole),
      ...checkSerial(disk, own),
      ...checkBlockSize(disk, target, own),
    ];
  });
  return [...duplicates(disks, list), ...errors];
}

function checkUse(disk: JsonObject, volume: JsonObject, field: string): FieldError[] {
  const isClaim = isRecord(volume.persistentVolumeClaim) || isRecord(volume.dataVolume);
  if (isRecord(disk.lun) && !isClaim) {
    const words = `${field}.lun can only be mapped to a DataVolume or PersistentVolumeClaim volume.`;
    return [refusedField(`${field}.lun`, words)];
  }
  if (!isRecord(volume.downwardMetrics)) return [];
  if (isRecord(disk.lun) || isRecord(disk.cdrom)) {
    const words = `DownwardMetrics volume must be mapped to a disk, but disk is not set on ${field}.disk.`;
    return [{ ...refusedField(`${field}.disk`, words), reason: 'FieldValueRequired' }];
  }
  const bus = stringAt(disk, 'disk', 'bus') ?? '';
  if (bus === '' || bus === 'virtio') return [];
  const where = `${field}.disk.bus`;
  return [refusedField(where, `DownwardMetrics volume must be mapped to virtio bus, but ${where} is set to ${bus}`)];
}

function checkBus(disk: JsonObject, target: string, field: string, isWhole: boolean): FieldError[] {
  const bus = stringAt(disk, target, 'bus') ?? '';
  const pciAddress = stringAt(disk, 'disk', 'pciAddress') ?? '';
  const found: FieldError[] = [];
  const refuse = (where: string, words: string) => found.push(refusedField(`${field}${where}`, words));
  if (target === 'cdrom' && bus === 'virtio') refuse('.cdrom.bus', 'Bus type virtio is invalid for CD-ROM device');
  if (target === 'disk' && bus === 'sata' && at(disk, 'disk', 'readonly') === true) {
    refuse('.disk.bus', 'sata hard-disks do not support read-only.');
  }
  if (disk.dedicatedIOThread === true && bus !== '' && bus !== 'virtio') {
    refuse('', `IOThreads are not supported for disks on a ${bus} bus`);
  }
  // A preference may still say which bus.
  const mayBeVirtio = bus === 'virtio' || (bus === '' && !isWhole);
  if (pciAddress !== '' && !mayBeVirtio) {
    refuse('.pciAddress', `disk ${field}.name - setting a PCI address is only possible with bus type virtio.`);
  }
  if (pciAddress !== '' && !pciPattern.test(pciAddress)) {
    refuse('.pciAddress', `disk ${field}.name has malformed PCI address (${pciAddress}).`);
  }
  return found;
}

const maxSerial = 256;

function checkSerial(disk: JsonObject, field: string): FieldError[] {
  const serial = stringAt(disk, 'serial') ?? '';
  const where = `${field}.serial`;
  const found: FieldError[] = [];
  if (serial !== '' && !/^[\w.+-]+$/.test(serial)) {
    const words = `${field} must be made up of the following characters [A-Za-z0-9_.+-], if specified`;
    found.push(refusedField(where, words));
  }
  if ([...serial].length > maxSerial) {
    found.push(refusedField(where, `${field} must be less than or equal to ${maxSerial} in length, if specified`));
  }
  return found;
}

const blockSizes = { least: 512, most: 2_097_152 } as const;

function checkBlockSize(disk: JsonObject, target: string, field: string): FieldError[] {
  const custom = at(disk, 'blockSize', 'custom');
  if (!isRecord(custom)) return [];
  const matching = at(disk, 'blockSize', 'matchVolume');
  if (isRecord(matching) && matching.enabled !== false) {
    const words = "Block size matching can't be enabled together with a custom value";
    return [refusedField(`${field}.blockSize`, words)];
  }
  const where = `${field}.blockSize.custom`;
  const [logical = 0, physical = 0] = [numberAt(custom, 'logical'), numberAt(custom, 'physical')];
  const granularity = numberAt(custom, 'discardGranularity');
  if (logical > physical) {
    const words = `Logical size ${logical} must be the same or less than the physical size of ${physical}`;
    return [refusedField(`${where}.logical`, words)];
  }
  if (stringAt(disk, target, 'bus') === 'sata' && logical !== blockSizes.least) {
    const words = `Logical size ${logical} must be ${blockSizes.least} for SATA devices`;
    return [refusedField(`${where}.logical`, words)];
  }
  if (granularity !== undefined && logical > 0 && granularity % logical !== 0) {
    const words = `Discard granularity ${granularity} must be multiples of logical size ${logical}`;
    return [refusedField(`${where}.discardGranularity`, words)];
  }
  return Object.entries({ logical, physical }).flatMap(([kind, size]) => {
    const problem = sizeProblem(size);
    return problem === undefined ? [] : [refusedField(`${where}.${kind}`, `Provided size of ${size} is ${problem}`)];
  });
}

function sizeProblem(size: number): string | undefined {
  const { least, most } = blockSizes;
  if (size < least) return `less than the supported minimum size of ${least}`;
  if (size > most) return `greater than the supported maximum size of ${most}`;
  return Number.isInteger(Math.log2(size)) ? undefined : 'not a power of 2';
}
