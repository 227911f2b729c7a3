import {
  type Disk,
  type Interface,
  type Network,
  parseQuantity,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
  type Volume,
} from '../../api/index.ts';
import { isRecord, sameJson } from '../../base/index.ts';
import { listed, named } from './by-name.ts';
import { isHotpluggable } from './hotplug.ts';
import type { Rollout } from './live-change.ts';

/**
 * A field of the template is another one than at the start of the VMI, and cannot be changed while it runs
 * (syncRestartRequired in pkg/virt-controller/watch/vm/vm.go).
 */
export function needsRestart(
  startSpec: VirtualMachine['spec'],
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
  strategy: Rollout['strategy'],
): boolean {
  const [old, wanted] = [templateOf(startSpec), templateOf(vm.spec)];
  const isMigrated = vm.spec.updateVolumesStrategy === 'Migration';
  const ignored = [
    ...(volumesAreLive(old, wanted, isMigrated) ? ['volumes'] : []),
    ...(disksAreLive(old, wanted) ? ['domain.devices.disks'] : []),
    ...(strategy === 'LiveUpdate' ? liveFields(old, wanted) : []),
    ...(linksNeedRestart(wanted, vmi.spec) ? [] : ['domain.devices.interfaces', 'networks']),
    ...(hasSameFirmwareId(wanted, vmi.spec) ? ['domain.firmware.uuid'] : []),
  ];
  return !sameJson(comparable(old, ignored), comparable(wanted, ignored));
}

/** A bare API server takes anything for one. */
function templateOf({ template }: Partial<VirtualMachine['spec']>): VmiSpec {
  return isRecord(template?.spec) ? template.spec : { domain: {} };
}

/** A guest whose template says nothing of CPUs or memory gets none by a change of these. */
function liveFields(old: VmiSpec, wanted: VmiSpec): string[] {
  return [
    ...(old.domain?.cpu && wanted.domain?.cpu ? ['domain.cpu.sockets'] : []),
    ...((wanted.domain?.memory?.guest ?? undefined) === undefined ? [] : ['domain.memory.guest']),
    ...['nodeSelector', 'affinity', 'tolerations'],
  ];
}

/** What was to be moved to another claim is told elsewhere (volume-migration.ts). */
function volumesAreLive(old: VmiSpec, wanted: VmiSpec, isMigrated: boolean): boolean {
  const [before, after] = [listed(old.volumes), listed(wanted.volumes)];
  const isLive = (volume: Volume) => {
    const known = named(before, volume.name);
    if (comesAndGoes(volume)) return true;
    if (!known) return false;
    return (isMigrated && Boolean(volume.persistentVolumeClaim || volume.dataVolume)) || isSame(known, volume);
  };
  return after.every(isLive) && before.every((volume) => named(after, volume.name) || comesAndGoes(volume));
}

/** Where the memory of the guest was written to is in the template only. */
function comesAndGoes(volume: Volume): boolean {
  return isHotpluggable(volume) || volume.memoryDump !== undefined;
}

function disksAreLive(old: VmiSpec, wanted: VmiSpec): boolean {
  const [before, after] = [listed(old.domain?.devices?.disks), listed(wanted.domain?.devices?.disks)];
  const isHot = (spec: VmiSpec, name: string) => {
    const volume = named(listed(spec.volumes), name);
    return volume && isHotpluggable(volume);
  };
  const isLive = (disk: Disk) => {
    const known = named(before, disk.name);
    return isHot(wanted, disk.name) || (known !== undefined && isSame(known, disk));
  };
  // The drive of a CD-ROM is no volume: it stays until the next start.
  const mayGo = (disk: Disk) => isHot(old, disk.name) !== false && !disk.cdrom;
  return after.every(isLive) && before.every((disk) => named(after, disk.name) || mayGo(disk));
}

/** Compared with what runs: links come and go there (pkg/network/vmliveupdate). */
function linksNeedRestart(wanted: VmiSpec, { domain, networks }: VmiSpec): boolean {
  const isPod = (network: Network) => Boolean(network.pod);
  const [asked, has] = [listed(wanted.networks), listed(networks)];
  if (asked.some(isPod) && !has.some(isPod)) return true;
  const links = listed(wanted.domain?.devices?.interfaces);
  return (
    listed(domain?.devices?.interfaces).some((link) => {
      const other = named(links, link.name);
      return !other || !isSame(withoutState(link), withoutState(other));
    }) ||
    has.some((network) => {
      const other = named(asked, network.name);
      return !other || !isSame(withoutDefinition(network), withoutDefinition(other));
    })
  );
}

const withoutState = ({ state: _state, ...link }: Interface) => link;

function withoutDefinition({ multus, ...network }: Network): object {
  return multus ? { ...network, multus: { ...multus, networkName: '' } } : network;
}

/** It may have been stored in the template of a VM that had none. */
function hasSameFirmwareId({ domain }: VmiSpec, running: VmiSpec): boolean {
  const uuid = domain?.firmware?.uuid;
  return Boolean(uuid) && uuid === running.domain?.firmware?.uuid;
}

function isSame(left: object, right: object): boolean {
  return sameJson(comparable(left), comparable(right));
}

/** In Go's form of these objects they are there, empty. */
const structures = new Set(['domain', 'devices', 'resources', 'requests', 'limits', 'nodeSelector']);
const quantities = new Set(['domain.memory.guest', 'domain.memory.maxGuest']);

/** As Go compares: what is empty is not there, and `1Gi` is `1024Mi`. `ignored`: paths that are left out. */
function comparable(value: unknown, ignored: readonly string[] = [], path = ''): unknown {
  if (Array.isArray(value)) return value.map((each) => comparable(each));
  if (!isRecord(value)) return value;
  const members = Object.entries(value).flatMap(([name, member]) => {
    const at = path === '' ? name : `${path}.${name}`;
    if (ignored.includes(at)) return [];
    const isQuantity = quantities.has(at) || /^domain\.resources\.(?:requests|limits)\.[^.]+$/.test(at);
    const compared = isQuantity ? quantityOf(member) : comparable(member, ignored, at);
    return isNothing(name, compared) ? [] : [[name, compared] as const];
  });
  return Object.fromEntries(members);
}

function quantityOf(value: unknown): unknown {
  return typeof value === 'string' || typeof value === 'number' ? (parseQuantity(value) ?? value) : value;
}

function isNothing(name: string, value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  // Left with nothing where a field below it is ignored.
  const mayBeEmpty = structures.has(name) || name === 'cpu' || name === 'memory' || name === 'firmware';
  return isRecord(value) && Object.keys(value).length === 0 && mayBeEmpty;
}
