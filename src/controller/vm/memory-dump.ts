import {
  isBeingDeleted,
  isFinal,
  type VirtualMachine,
  type VirtualMachineInstance,
  type Volume,
  type VolumeStatus,
} from '../../api/index.ts';
import { isRecord, memberAt } from '../../base/index.ts';
import { listed, named } from './by-name.ts';
import type { PluggedVolumes } from './hotplug.ts';
import type { VmStatus } from './observation.ts';

type DumpRequest = NonNullable<VmStatus['memoryDumpRequest']>;

/** Volumes that a memory dump brings, or that go when it is over (upstream: pkg/storage/memorydump). */
export interface DumpVolumes {
  /** Of the VM's template, which remembers where the dump is. */
  readonly template: PluggedVolumes | undefined;
  readonly vmi: PluggedVolumes | undefined;
}

interface Seen {
  readonly vm: VirtualMachine;
  readonly vmi: VirtualMachineInstance | undefined;
}

/** Undefined: no dump was asked for, or volumes are as its phase wants them. */
export function dumpVolumes({ vm, vmi }: Seen): DumpVolumes | undefined {
  const request = dumpRequestOf(vm);
  if (!request || !isRecord(vm.spec.template?.spec?.domain)) return undefined;
  const { claimName } = request;
  const template = volumesOf(vm.spec.template.spec);
  const guest = vmi && !isFinal(vmi) && !isBeingDeleted(vmi) ? volumesOf(vmi.spec) : undefined;
  switch (phaseOf(request)) {
    case 'Associating':
      if (!guest || vmi?.status?.phase !== 'Running' || isTaken(template, claimName)) return undefined;
      return changed(withDump(template, claimName), withDump(guest, claimName));
    case 'Unmounting':
    case 'Completed':
    case 'Failed':
      return changed(undefined, guest && withoutDump(guest, claimName));
    case 'Dissociating':
      return changed(withoutDump(template, claimName), guest && withoutDump(guest, claimName));
    default:
      return undefined;
  }
}

/** What is told of the request now. Undefined: it is over and forgotten. Its phases are upstream's, but that a guest that ends fails its dump. */
export function projectDump(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: string,
): DumpRequest | undefined {
  const request = dumpRequestOf(vm);
  if (!request) return vm.status?.memoryDumpRequest;
  const { claimName } = request;
  const template = volumesOf(vm.spec.template?.spec);
  const entry = vmi?.status?.volumeStatus?.find(({ name }) => name === claimName);
  const failed = (message: string): DumpRequest => ({ ...request, phase: 'Failed', message, endTimestamp: now });
  switch (phaseOf(request)) {
    case 'Associating':
      if (isTaken(template, claimName)) {
        return failed(
          `another volume of the VM has the name of the claim: rename volume ${claimName}, or use another claim`,
        );
      }
      return named(template.volumes, claimName) ? { ...request, phase: 'InProgress' } : request;
    case 'InProgress':
      if (!vmi || isFinal(vmi))
        return failed('the guest ended before its memory was written: start the VM and ask again');
      return inProgress(request, entry);
    case 'Unmounting':
      return entry ? request : { ...request, phase: 'Completed' };
    case 'Dissociating':
      return entry || named(template.volumes, claimName) ? { ...request, phase: 'Dissociating' } : undefined;
    default:
      return request;
  }
}

/** No guest begins with the volume: it comes while it runs, and a dump that is over stays in the claim. */
export function withoutDumpVolume(volumes: Volume[], vm: VirtualMachine): Volume[] {
  const request = dumpRequestOf(vm);
  if (!request || !Array.isArray(volumes)) return volumes;
  return volumes.filter((volume) => !isDump(volume, request.claimName));
}

function inProgress(request: DumpRequest, entry: VolumeStatus | undefined): DumpRequest {
  const told = entry?.memoryDumpVolume;
  if (!entry || !isRecord(told)) return request;
  const text = (name: string) => {
    const value = memberAt(told, name);
    return typeof value === 'string' ? value : undefined;
  };
  const [startTimestamp, endTimestamp, fileName] = [
    text('startTimestamp'),
    text('endTimestamp'),
    text('targetFileName'),
  ];
  const begun = { ...request, ...(startTimestamp && { startTimestamp }) };
  const ended = { ...begun, ...(endTimestamp && { endTimestamp }) };
  if (entry.phase === 'MemoryDumpCompleted') return { ...ended, phase: 'Unmounting', ...(fileName && { fileName }) };
  if (entry.phase === 'MemoryDumpFailed') return { ...ended, phase: 'Failed', message: entry.message ?? '' };
  return begun;
}

/** A bare API server takes anything for one. */
function dumpRequestOf({ status }: VirtualMachine): DumpRequest | undefined {
  const request: unknown = status?.memoryDumpRequest;
  const isUsable = isRecord(request) && typeof request.claimName === 'string' && request.claimName !== '';
  return isUsable ? status?.memoryDumpRequest : undefined;
}

/** What is taken back is taken out whatever it was at. */
function phaseOf({ remove, phase }: DumpRequest): string {
  return remove ? 'Dissociating' : (phase ?? '');
}

function volumesOf(spec: VirtualMachineInstance['spec'] | undefined): PluggedVolumes {
  return { volumes: listed(spec?.volumes), disks: listed(spec?.domain?.devices?.disks) };
}

const isDump = ({ name, memoryDump }: Volume, claimName: string) => name === claimName && memoryDump !== undefined;

/** The volume of a dump has the name of its claim. */
function isTaken({ volumes }: PluggedVolumes, claimName: string): boolean {
  const volume = named(volumes, claimName);
  return volume !== undefined && !isDump(volume, claimName);
}

/** Undefined: it has it already. */
function withDump(has: PluggedVolumes, claimName: string): PluggedVolumes | undefined {
  if (named(has.volumes, claimName)) return undefined;
  const volume: Volume = { name: claimName, memoryDump: { claimName, hotpluggable: true } };
  return { ...has, volumes: [...has.volumes, volume] };
}

function withoutDump(has: PluggedVolumes, claimName: string): PluggedVolumes | undefined {
  const volumes = has.volumes.filter((volume) => !isDump(volume, claimName));
  return volumes.length === has.volumes.length ? undefined : { ...has, volumes };
}

function changed(template: PluggedVolumes | undefined, vmi: PluggedVolumes | undefined): DumpVolumes | undefined {
  return template || vmi ? { template, vmi } : undefined;
}
