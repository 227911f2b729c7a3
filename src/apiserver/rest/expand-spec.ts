import type { Request, Response } from 'express';
import { resources, type VirtualMachine } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import {
  appliedTemplate,
  followedRef,
  InstancetypeError,
  type MatcherField,
  matcherFields,
  matcherOf,
  readSpec,
  referredType,
  revisedSpec,
} from '../../instancetype/index.ts';
import { ApiError, badRequest } from '../errors.ts';
import type { ApiObject } from '../object.ts';
import { clusterDefaults } from '../objects/index.ts';
import type { VmTarget } from '../vm-subresources.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { parseBody } from './body.ts';
import { servedType } from './request.ts';
import { sendValue } from './respond.ts';

/** A stored VM with all that its instance type and preference say: `virtctl expand --vm` (upstream: pkg/virt-api/rest/expand.go). Throws ApiError. */
export function serveExpandSpec(context: ApiContext, target: VmTarget, request: Request, response: Response): void {
  if (request.method !== 'GET') {
    throw new ApiError('METHOD_NOT_ALLOWED', `${request.method} is not supported on expand-spec: use GET`);
  }
  const { object } = context.reader.get(typeOf(resources.virtualMachines), target);
  sendValue(response, 200, expanded(context, object as unknown as VirtualMachine));
}

/** The same for a VM that is not stored: `virtctl expand --file`. Throws ApiError. */
export function serveExpandVmSpec(
  context: ApiContext,
  namespace: string,
  call: ResourceCall,
  request: Request,
  response: Response,
): void {
  if (request.method !== 'PUT') {
    throw new ApiError('METHOD_NOT_ALLOWED', `${request.method} is not supported on expand-vm-spec: use PUT`);
  }
  const vm = parseBody(call.body, call.contentType ?? 'application/json');
  if (!isRecord(vm) || !isRecord(vm.metadata) || !isRecord(vm.spec))
    throw badRequest('the body must be a VirtualMachine');
  const given = vm.metadata.namespace;
  if (given !== undefined && given !== '' && given !== namespace) {
    throw badRequest(`VM namespace must be empty or ${namespace}`);
  }
  const whole = { ...vm, metadata: { ...vm.metadata, namespace } };
  sendValue(response, 200, expanded(context, whole as unknown as VirtualMachine));
}

function expanded(context: ApiContext, vm: VirtualMachine): unknown {
  const fields = matcherFields.filter((field) => matcherOf(vm, field));
  if (fields.length === 0) return vm;
  try {
    const found = Object.fromEntries(fields.map((field) => [field, specOf(context, vm, field)] as const));
    const { architecture, networkBinding } = clusterDefaults(context);
    const template = appliedTemplate(vm, found, { architecture, defaultInterfaceBinding: networkBinding });
    const { instancetype: _instancetype, preference: _preference, ...spec } = vm.spec;
    const { instancetypeRef: _instancetypeRef, preferenceRef: _preferenceRef, ...status } = vm.status ?? {};
    return { ...vm, spec: { ...spec, template }, ...(vm.status && { status }) };
  } catch (error) {
    if (!(error instanceof InstancetypeError)) throw error;
    throw badRequest(error.message);
  }
}

/** Of its revision, or of the object as it is now. */
function specOf({ reader }: ApiContext, vm: VirtualMachine, field: MatcherField) {
  const matcher = matcherOf(vm, field) ?? {};
  const { namespace = '' } = vm.metadata;
  if (!matcher.name) throw new InstancetypeError('MALFORMED', `spec.${field}: name is missing, or not yet inferred`);
  const stored = vm.status?.[`${field}Ref`];
  const revision = followedRef(matcher, isRecord(stored) ? stored : {}).controllerRevisionRef?.name;
  if (revision !== undefined) {
    const type = typeOf(resources.controllerRevisions);
    return readSpec(field, revisedSpec(reader.get(type, { namespace, name: revision }).object, field));
  }
  const type = typeOf(referredType(field, matcher));
  const { object } = reader.get(type, { namespace: type.namespaced ? namespace : '', name: matcher.name });
  return readSpec(field, (object as ApiObject).spec);
}

function typeOf({ group, version, resource }: { group: string; version: string; resource: string }) {
  return servedType(group, version, resource);
}
