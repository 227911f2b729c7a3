import type { Request, Response } from 'express';
import { isRecord, sameJson } from '../../base/index.ts';
import { ApiError, badRequest, notFound } from '../errors.ts';
import { type ApiObject, at, stringAt } from '../object.ts';
import { storedObjects } from '../objects/index.ts';
import type { VmTarget } from '../vm-subresources.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { parseBody } from './body.ts';
import { isDryRun, requirePut, servedType } from './request.ts';
import { virtApi } from './virt-api.ts';

/** What `virtctl migrate` and `virtctl evacuate-cancel` ask for (upstream: pkg/virt-api/rest). Throws ApiError. */
export async function serveMigrationCall(
  context: ApiContext,
  { resource, subresource, target }: { resource: string; subresource: string; target: VmTarget },
  call: ResourceCall,
  request: Request,
  response: Response,
): Promise<void> {
  requirePut(request, subresource);
  if (resource === 'virtualmachines') context.reader.get(typeOf('virtualmachines'), target);
  const vmi = storedObjects(context).vmi(target.namespace, target.name);
  if (!vmi) throw notFound(typeOf('virtualmachineinstances'), target.name);
  const body = call.body.length === 0 ? undefined : parseBody(call.body, call.contentType ?? 'application/json');
  const options = { body, dryRun: isDryRun(at(body, 'dryRun')) };
  if (subresource === 'migrate') await migrate(context, target, vmi, options);
  else await cancelEvacuation(context, target, vmi, options);
  response.status(subresource === 'migrate' ? 202 : 200).end();
}

interface CallOptions {
  readonly body: unknown;
  readonly dryRun: boolean;
}

async function migrate(context: ApiContext, target: VmTarget, vmi: ApiObject, { body, dryRun }: CallOptions) {
  const { namespace, name } = target;
  if (stringAt(vmi, 'status', 'phase') !== 'Running') {
    const text = `Operation cannot be fulfilled on virtualmachine.kubevirt.io "${name}": VM is not running`;
    throw new ApiError('CONFLICT', text, { details: { name, group: 'kubevirt.io', kind: 'virtualmachine' } });
  }
  const addedNodeSelector = at(body, 'addedNodeSelector');
  const migration = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstanceMigration',
    metadata: { generateName: 'kubevirt-migrate-vm-', namespace },
    spec: { vmiName: name, ...(isRecord(addedNodeSelector) && { addedNodeSelector }) },
  };
  const type = typeOf('virtualmachineinstancemigrations');
  await context.writer.create(type, namespace, migration, { user: virtApi, dryRun });
}

/** The VMI stays where it is after all; the body says which node was meant. */
async function cancelEvacuation(context: ApiContext, target: VmTarget, vmi: ApiObject, { body, dryRun }: CallOptions) {
  if (!stringAt(vmi, 'status', 'evacuationNodeName')) return;
  if (body === undefined) throw badRequest('No body');
  const wanted = at(body, 'evacuationNodeName');
  const change = (current: ApiObject) => {
    const { evacuationNodeName, ...status } = isRecord(current.status) ? current.status : {};
    if (sameJson(evacuationNodeName, wanted)) return { ...current, status };
    throw new ApiError('CONFLICT', `the VMI is to leave node ${evacuationNodeName}, not ${wanted}`);
  };
  const update = { ...target, subresource: undefined, change, isReplace: false };
  await context.writer.update(typeOf('virtualmachineinstances'), update, { user: virtApi, dryRun });
}

function typeOf(resource: string) {
  return servedType('kubevirt.io', 'v1', resource);
}
