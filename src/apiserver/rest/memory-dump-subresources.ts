import type { Request, Response } from 'express';
import {
  localStorage,
  type PersistentVolumeClaim,
  parseQuantity,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import { ApiError, badRequest } from '../errors.ts';
import { type ApiObject, at, stringAt } from '../object.ts';
import { hotplugGates } from '../objects/index.ts';
import type { VmTarget } from '../vm-subresources.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { parseBody } from './body.ts';
import { requirePut, servedType } from './request.ts';
import { virtApi } from './virt-api.ts';

/** QEMU writes headers beside the memory. */
const headroomBytes = 100 * 2 ** 20;
/** What file systems of claims take for themselves where no CDI says another share. */
const overhead = 0.055;
const endedPhases = ['Completed', 'Failed'];

/**
 * What `virtctl memory-dump get` and `remove` ask for: it becomes `status.memoryDumpRequest` of the VM, which virt-controller follows
 * (upstream: pkg/virt-api/rest/memorydump.go). Throws ApiError.
 */
export async function serveMemoryDump(
  context: ApiContext,
  { subresource, target }: { subresource: string; target: VmTarget },
  call: ResourceCall,
  request: Request,
  response: Response,
): Promise<void> {
  requirePut(request, subresource);
  const isRemoval = subresource === 'removememorydump';
  const claimName = isRemoval ? '' : wantedClaim(context, call);
  const change = (vm: ApiObject): ApiObject => {
    const asked = isRemoval ? removalOf(vm) : requestOf(context, vm, claimName);
    const status = isRecord(vm.status) ? vm.status : {};
    return { ...vm, status: { ...status, memoryDumpRequest: asked } };
  };
  const update = { ...target, subresource: 'status' as const, change, isReplace: false };
  await context.writer.update(typeOf('kubevirt.io', 'virtualmachines'), update, { user: virtApi, dryRun: false });
  response.status(202).end();
}

function wantedClaim(context: ApiContext, call: ResourceCall): string {
  const gates = hotplugGates(context);
  if (!gates.declarative && !gates.ephemeral) {
    throw badRequest('Enable DeclarativeHotplugVolumes or HotplugVolumes feature gate to use this API.');
  }
  if (call.body.length === 0) throw badRequest('Request with no body');
  return stringAt(parseBody(call.body, call.contentType ?? 'application/json'), 'claimName') ?? '';
}

function requestOf(context: ApiContext, vm: ApiObject, wanted: string): object {
  const { name = '', namespace = '' } = vm.metadata;
  const [known, phase] = ['claimName', 'phase'].map((each) => stringAt(vm, 'status', 'memoryDumpRequest', each));
  const claimName = wanted || known;
  if (!claimName) throw badRequest('Memory dump requires claim name to be set');
  if (known && known !== claimName) {
    const other = `while pvc [${known}] is still associated as the memory dump pvc`;
    throw conflict('virtualmachine', name, `can't request memory dump for pvc [${claimName}] ${other}`);
  }
  if (known && phase === 'Dissociating') {
    throw conflict(
      'virtualmachine',
      name,
      `can't dump memory for pvc [${claimName}] a remove memory dump request is in progress`,
    );
  }
  if (known && !endedPhases.includes(phase ?? '')) {
    throw conflict('virtualmachine', name, `memory dump request for pvc [${claimName}] already in progress`);
  }
  const { object } = context.reader.get(typeOf('kubevirt.io', 'virtualmachineinstances'), { namespace, name });
  if (stringAt(object, 'status', 'phase') !== 'Running') {
    throw conflict('virtualmachineinstance', name, 'VMI is not running');
  }
  const claim = context.reader.get(typeOf('', 'persistentvolumeclaims'), { namespace, name: claimName });
  const problem = claimProblem(
    claim.object as unknown as PersistentVolumeClaim,
    object as unknown as VirtualMachineInstance,
  );
  if (problem) throw conflict('persistentvolumeclaim', claimName, problem);
  return { claimName, phase: 'Associating' };
}

function removalOf(vm: ApiObject): object {
  const { name = '' } = vm.metadata;
  const claimName = stringAt(vm, 'status', 'memoryDumpRequest', 'claimName');
  if (!claimName) {
    const why = `can't remove memory dump association for vm ${name}, no association found`;
    throw conflict('virtualmachine', name, why);
  }
  if (at(vm, 'status', 'memoryDumpRequest', 'remove') === true) {
    throw conflict('virtualmachine', name, `memory dump remove request for pvc [${claimName}] already exists`);
  }
  return { claimName, phase: 'Dissociating', remove: true };
}

/** What is missing is left to who takes the dump. */
function claimProblem(
  { metadata, spec }: PersistentVolumeClaim,
  { spec: vmi, status }: VirtualMachineInstance,
): string | undefined {
  if (spec.volumeMode === 'Block') return 'pvc should be filesystem pvc';
  const modes = spec.accessModes ?? [];
  if (modes.length > 0 && modes.every((mode) => mode === 'ReadOnlyMany')) return "pvc access mode can't be read only";
  const { memory, resources } = vmi.domain;
  const memoryBytes = parseQuantity(status?.memory?.guestCurrent ?? memory?.guest ?? resources?.requests?.memory);
  const claimBytes = parseQuantity(spec.resources?.requests?.storage);
  if (memoryBytes === undefined || claimBytes === undefined) return undefined;
  const isLocal = metadata.annotations?.[localStorage.provisionerAnnotation] === localStorage.driver;
  const neededBytes = Math.ceil((memoryBytes + headroomBytes) / (isLocal ? 1 : 1 - overhead));
  if (claimBytes >= neededBytes) return undefined;
  return `pvc size [${mebibytes(claimBytes)}] should be bigger then [${mebibytes(neededBytes)}]`;
}

const mebibytes = (bytes: number) => `${Math.ceil(bytes / 2 ** 20)}Mi`;

function typeOf(group: string, resource: string) {
  return servedType(group, 'v1', resource);
}

function conflict(kind: string, name: string, problem: string): ApiError {
  const text = `Operation cannot be fulfilled on ${kind}.kubevirt.io "${name}": ${problem}`;
  return new ApiError('CONFLICT', text, { details: { name, group: 'kubevirt.io', kind } });
}
