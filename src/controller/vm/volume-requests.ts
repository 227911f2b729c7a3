import {
  type Disk,
  isBeingDeleted,
  isFinal,
  type VirtualMachine,
  type Volume,
  type VolumeRequest,
} from '../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../base/index.ts';
import { listed, named } from './by-name.ts';
import { isHotpluggable, type PluggedVolumes } from './hotplug.ts';
import type { PresentVm } from './observation.ts';

/** What follows from volumes that virt-api was asked to plug in or out (upstream: handleVolumeRequests in pkg/virt-controller/watch/vm/vm.go). */
export interface RequestedVolumes {
  /** Of the VM's template. */
  readonly template: PluggedVolumes;
  /** Of its running VMI, where a template's volumes do not get there by themselves. */
  readonly vmi: PluggedVolumes | undefined;
}

/** Undefined: nothing was asked for that the template does not have, or the VMI does not run yet. One that has ended is kept by some run strategies. */
export function requestedVolumes({ vm, vmi, plugsVolumes }: PresentVm): RequestedVolumes | undefined {
  const open = openVolumeRequests(vm);
  if (open.length === 0 || !isRecord(vm.spec.template?.spec?.domain)) return undefined;
  const template = open.reduce(applied, templateOf(vm));
  if (!vmi || isFinal(vmi) || isBeingDeleted(vmi) || plugsVolumes) return { template, vmi: undefined };
  if (vmi.status?.phase !== 'Running') return undefined;
  const running = { volumes: listed(vmi.spec.volumes), disks: listed(vmi.spec.domain?.devices?.disks) };
  // What the guest was started with stays until its next start.
  const pluggable = open.filter(({ removeVolumeOptions }) => {
    const volume = removeVolumeOptions && named(running.volumes, removeVolumeOptions.name);
    return !volume || isHotpluggable(volume);
  });
  return { template, vmi: pluggable.reduce(applied, running) };
}

/** Those that the template does not have yet, as they shall be stored. */
export function openVolumeRequests(vm: VirtualMachine): VolumeRequest[] {
  return volumeRequestsOf(vm).filter((request) => !isDone(request, templateOf(vm)));
}

/** A bare API server takes anything for one. */
function volumeRequestsOf({ status }: VirtualMachine): VolumeRequest[] {
  return listOf(status?.volumeRequests).filter((request): request is VolumeRequest => {
    const options = memberAt(request, 'addVolumeOptions') ?? memberAt(request, 'removeVolumeOptions');
    return isRecord(options) && typeof options.name === 'string';
  });
}

function templateOf({ spec }: VirtualMachine): PluggedVolumes {
  const template = spec.template?.spec;
  return { volumes: listed(template?.volumes), disks: listed(template?.domain?.devices?.disks) };
}

function isDone({ addVolumeOptions: add, removeVolumeOptions: remove }: VolumeRequest, has: PluggedVolumes): boolean {
  const name = add?.name ?? remove?.name ?? '';
  const [volume, disk] = [named(has.volumes, name), named(has.disks, name)];
  return add ? Boolean(volume && (disk || !add.disk)) : !volume && !disk;
}

function applied({ volumes, disks }: PluggedVolumes, request: VolumeRequest): PluggedVolumes {
  const { addVolumeOptions: add, removeVolumeOptions: remove } = request;
  if (add) {
    const disk: Disk | undefined = add.disk && { ...add.disk, name: add.name };
    return {
      volumes: named(volumes, add.name) ? volumes : [...volumes, pluggedVolume(add)],
      disks: !disk || named(disks, add.name) ? disks : [...disks, disk],
    };
  }
  const stays = ({ name }: { readonly name: string }) => name !== remove?.name;
  return { volumes: volumes.filter(stays), disks: disks.filter(stays) };
}

function pluggedVolume({ name, volumeSource }: NonNullable<VolumeRequest['addVolumeOptions']>): Volume {
  const { persistentVolumeClaim: claim, dataVolume } = volumeSource ?? {};
  if (claim) return { name, persistentVolumeClaim: { ...claim, hotpluggable: true } };
  return dataVolume ? { name, dataVolume: { ...dataVolume, hotpluggable: true } } : { name };
}
