import type { Request, Response } from 'express';
import type { VolumeRequest as ApiVolumeRequest, Disk, VmiSpec, Volume } from '../../api/index.ts';
import { copyJson, isRecord, listOf } from '../../base/index.ts';
import { ApiError, badRequest } from '../errors.ts';
import { type ApiObject, at, stringAt } from '../object.ts';
import { hotplugGates, storedObjects } from '../objects/index.ts';
import type { VmTarget } from '../vm-subresources.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { parseBody } from './body.ts';
import { isDryRun, requirePut, servedType } from './request.ts';
import { virtApi } from './virt-api.ts';

type Owner = 'virtualmachines' | 'virtualmachineinstances';

/** What `virtctl addvolume` and `removevolume` send (AddVolumeOptions, RemoveVolumeOptions). */
type VolumeRequest =
  | { readonly kind: 'add'; readonly volume: Volume; readonly disk: Disk; readonly dryRun: boolean }
  | { readonly kind: 'remove'; readonly name: string; readonly dryRun: boolean };

/**
 * Plugs a volume into a VM or a running VMI, or out of it (upstream: pkg/virt-api/rest/volumes.go). With the gate HotplugVolumes a VM's template does not get into
 * its VMI by itself: what is asked of the VM becomes `status.volumeRequests`, which virt-controller follows. Throws ApiError.
 */
export async function serveVolumes(
  context: ApiContext,
  { resource, subresource, target }: { resource: string; subresource: string; target: VmTarget },
  call: ResourceCall,
  request: Request,
  response: Response,
): Promise<void> {
  requirePut(request, subresource);
  const gates = hotplugGates(context);
  if (!gates.declarative && !gates.ephemeral) {
    throw badRequest('Enable DeclarativeHotplugVolumes or HotplugVolumes feature gate to use this API.');
  }
  const asked = requestOf(subresource, call);
  const owner: Owner = resource === 'virtualmachines' ? 'virtualmachines' : 'virtualmachineinstances';
  const type = servedType('kubevirt.io', 'v1', owner);
  const isRequest = owner === 'virtualmachines' && gates.ephemeral;
  const guest = isRequest ? storedObjects(context).vmi(target.namespace, target.name) : undefined;
  if (isRequest && asked.kind === 'add') await checkFollowable(context, target, asked, guest);
  const change = (current: ApiObject) =>
    isRequest ? requested(current, asked, guest) : changed(current, owner, asked, gates.ephemeral);
  const update = { ...target, subresource: isRequest ? ('status' as const) : undefined, change, isReplace: false };
  await context.writer.update(type, update, { user: virtApi, dryRun: asked.dryRun });
  response.status(202).end();
}

function requestOf(subresource: string, call: ResourceCall): VolumeRequest {
  if (call.body.length === 0) {
    throw badRequest('Request with no body, a new name is expected as the request body');
  }
  const body = parseBody(call.body, call.contentType ?? 'application/json');
  const dryRun = isDryRun(at(body, 'dryRun'));
  const name = stringAt(body, 'name');
  if (subresource === 'removevolume') {
    if (!name) throw badRequest('RemoveVolumeOptions requires name to be set');
    return { kind: 'remove', name, dryRun };
  }
  if (!name) throw badRequest('AddVolumeOptions requires name to be set');
  const disk = at(body, 'disk');
  if (!isRecord(disk)) throw badRequest('AddVolumeOptions requires disk to not be nil');
  const source = at(body, 'volumeSource');
  if (!isRecord(source)) throw badRequest('AddVolumeOptions requires VolumeSource to not be nil');
  return { kind: 'add', volume: volumeOf(name, source), disk: { ...disk, name }, dryRun };
}

function volumeOf(name: string, { persistentVolumeClaim, dataVolume }: Record<string, unknown>): Volume {
  const plugged = (source: unknown) => ({ ...(isRecord(source) ? source : {}), hotpluggable: true });
  if (persistentVolumeClaim) return { name, persistentVolumeClaim: plugged(persistentVolumeClaim) } as Volume;
  return dataVolume ? ({ name, dataVolume: plugged(dataVolume) } as Volume) : { name };
}

/** What virt-controller will write of it, tried: a request that nobody takes would hold up all later ones of the VM. */
async function checkFollowable(
  context: ApiContext,
  target: VmTarget,
  asked: VolumeRequest,
  guest: ApiObject | undefined,
): Promise<void> {
  const owners: Owner[] = ['virtualmachines'];
  if (stringAt(guest, 'status', 'phase') === 'Running') owners.push('virtualmachineinstances');
  for (const owner of owners) {
    const change = (current: ApiObject) => changed(current, owner, asked, true);
    const update = { ...target, subresource: undefined, change, isReplace: false };
    await context.writer.update(servedType('kubevirt.io', 'v1', owner), update, { user: virtApi, dryRun: true });
  }
}

/** The VM with one more request. One to plug in that its guest has not followed yet is taken back by its removal. */
function requested(vm: ApiObject, asked: VolumeRequest, guest: ApiObject | undefined): ApiObject {
  const open = listOf(at(vm, 'status', 'volumeRequests')) as ApiVolumeRequest[];
  const template = volumesAt(vm, 'spec', 'template', 'spec', 'volumes');
  const name = asked.kind === 'add' ? asked.volume.name : asked.name;
  const others = open.filter((each) => each.addVolumeOptions?.name !== name);
  const isPlugged = [...template, ...volumesAt(guest, 'spec', 'volumes')].some((volume) => volume.name === name);
  const isTakenBack = asked.kind === 'remove' && others.length < open.length && !isPlugged;
  if (isTakenBack) return withRequests(vm, others);
  const volumes = asked.kind === 'add' ? [...template, ...comingIn(open)] : template;
  const problem = openProblem(open, asked.kind, name) ?? problemOf(volumes, asked);
  if (problem !== undefined) throw conflictOf('virtualmachines', vm.metadata.name ?? '', problem);
  return withRequests(vm, [...others, apiRequestOf(asked)]);
}

function withRequests(vm: ApiObject, volumeRequests: readonly ApiVolumeRequest[]): ApiObject {
  return { ...vm, status: { ...(isRecord(vm.status) ? vm.status : {}), volumeRequests } };
}

function volumesAt(object: ApiObject | undefined, ...path: readonly string[]): Volume[] {
  return listOf(at(object, ...path)) as Volume[];
}

/** Those that the template gets. */
function comingIn(open: readonly ApiVolumeRequest[]): Volume[] {
  return open.flatMap(({ addVolumeOptions: add }) => (add ? [{ name: add.name, ...add.volumeSource }] : []));
}

function openProblem(open: readonly ApiVolumeRequest[], kind: VolumeRequest['kind'], name: string): string | undefined {
  if (open.some((each) => each.removeVolumeOptions?.name === name)) {
    return `volume [${name}] is being removed: ask again when it is gone`;
  }
  const isComing = kind === 'add' && open.some((each) => each.addVolumeOptions?.name === name);
  return isComing ? `volume [${name}] is being added already` : undefined;
}

function apiRequestOf(asked: VolumeRequest): ApiVolumeRequest {
  if (asked.kind === 'remove') return { removeVolumeOptions: { name: asked.name } };
  const { name, ...volumeSource } = asked.volume;
  return { addVolumeOptions: { name, disk: asked.disk, volumeSource } };
}

function changed(current: ApiObject, owner: Owner, asked: VolumeRequest, takesEphemeral: boolean): ApiObject {
  const object = copyJson(current);
  const { name = '', namespace } = object.metadata;
  if (owner === 'virtualmachineinstances') checkVmi(object, `${namespace}/${name}`, takesEphemeral);
  const path = owner === 'virtualmachines' ? ['spec', 'template', 'spec'] : ['spec'];
  const spec = at(object, ...path) as VmiSpec | undefined;
  if (!isRecord(spec) || !isRecord(spec.domain)) throw conflictOf(owner, name, 'it has no spec.domain');
  const problem = problemOf(spec.volumes ?? [], asked);
  if (problem !== undefined) throw conflictOf(owner, name, problem);
  apply(spec, asked);
  return object;
}

function checkVmi(vmi: ApiObject, key: string, takesEphemeral: boolean): void {
  const isOfVm = vmi.metadata.ownerReferences?.some(({ kind }) => kind === 'VirtualMachine');
  if (isOfVm && !takesEphemeral) throw badRequest(`VMI ${key} is owned by a VM`);
  if (stringAt(vmi, 'status', 'phase') === 'Running') return;
  throw conflictOf('virtualmachineinstances', vmi.metadata.name ?? '', 'VMI is not running');
}

function problemOf(volumes: readonly Volume[], asked: VolumeRequest): string | undefined {
  if (asked.kind === 'remove') return removalProblem(volumes, asked.name);
  const { name } = asked.volume;
  const source = sourceOf(asked.volume);
  if (volumes.some((volume) => volume.name === name)) {
    return `Unable to add volume [${name}] because volume with that name already exists`;
  }
  const isUsed = source !== '' && volumes.some((volume) => sourceOf(volume) === source);
  return isUsed ? `Unable to add volume source [${source}] because it already exists` : undefined;
}

/** A volume is found by the name of its claim, too; only one with that very name can be taken out then, as upstream has it. */
function removalProblem(volumes: readonly Volume[], name: string): string | undefined {
  const found = volumes.find((volume) => volume.name === name || sourceOf(volume) === name);
  if (!found) return `Unable to remove volume [${name}] because it does not exist`;
  const isPluggable = found.dataVolume?.hotpluggable || found.persistentVolumeClaim?.hotpluggable;
  return isPluggable ? undefined : `Unable to remove volume [${found.name}] because it is not hotpluggable`;
}

function sourceOf({ dataVolume, persistentVolumeClaim }: Volume): string {
  return dataVolume?.name ?? persistentVolumeClaim?.claimName ?? '';
}

function apply(spec: VmiSpec, asked: VolumeRequest): void {
  const devices = spec.domain.devices ?? {};
  const [volumes, disks] = [spec.volumes ?? [], devices.disks ?? []];
  const isOther = ({ name }: { readonly name: string }) => asked.kind !== 'remove' || name !== asked.name;
  spec.volumes = asked.kind === 'add' ? [...volumes, asked.volume] : volumes.filter(isOther);
  const kept = asked.kind === 'add' ? [...disks, asked.disk] : disks.filter(isOther);
  spec.domain.devices = { ...devices, disks: kept };
}

function conflictOf(owner: Owner, name: string, problem: string): ApiError {
  const kind = owner.slice(0, -1);
  const text = `Operation cannot be fulfilled on ${kind}.kubevirt.io "${name}": ${problem}`;
  return new ApiError('CONFLICT', text, { details: { name, group: 'kubevirt.io', kind } });
}
