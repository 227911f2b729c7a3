import type { Request, Response } from 'express';
import type { VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { checkAccess } from '../access.ts';
import type { ApiType } from '../api-type.ts';
import { ApiError, badRequest } from '../errors.ts';
import { at, stringAt } from '../object.ts';
import { clusterDefaults } from '../objects/index.ts';
import {
  expandSpec,
  expandVmSpec,
  findType,
  knownVmSubresources,
  memoryDumpSubresources,
  migrationSubresources,
  portForward,
  portForwardChecks,
  sevSession,
  sevSessionRules,
  type VmSubresource,
  vmiSubresources,
  vmSubresourceGroup,
  vmSubresources,
  volumeSubresources,
} from '../types/index.ts';
import type { VmSubresources, VmTarget } from '../vm-subresources.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { parseBody } from './body.ts';
import { versionInfo } from './discovery.ts';
import { serveExpandSpec, serveExpandVmSpec } from './expand-spec.ts';
import { guestPortOf } from './guest-port.ts';
import { serveMemoryDump } from './memory-dump-subresources.ts';
import { serveMigrationCall } from './migration-subresources.ts';
import { isDryRun, noSuchPath } from './request.ts';
import { sendValue } from './respond.ts';
import { serveSevSession } from './sev-session.ts';
import { upgradeOf } from './upgrade.ts';
import { serveVolumes } from './volume-subresources.ts';

const { group, version } = vmSubresourceGroup;
/** The KubeVirt whose API this is. */
const kubevirtVersion = { ...versionInfo, gitVersion: 'v1.9.0+virt-node' };
const volumeOwners: readonly string[] = ['virtualmachines', 'virtualmachineinstances'];

/** What virt-api serves on a cluster: `/apis/subresources.kubevirt.io/v1/…`. Throws ApiError. */
export async function serveVmSubresource(
  context: ApiContext,
  segments: readonly string[],
  call: ResourceCall,
  request: Request,
  response: Response,
): Promise<void> {
  const [first, namespace, resource = '', name, ...below] = segments;
  if (segments.length === 1 && first === 'version') return sendValue(response, 200, kubevirtVersion);
  const subresource = below.join('/');
  if (first === 'namespaces' && namespace && segments.length === 3 && resource === expandVmSpec) {
    checkAccess(call.user, { verb: 'update', group, resource, subresource: undefined }, { namespace, name: undefined });
    return serveExpandVmSpec(context, namespace, call, request, response);
  }
  if (first !== 'namespaces' || !namespace || !name || !subresource) throw noSuchPath(group, version, resource);
  const target = { namespace, name };
  const verb = request.method === 'PUT' ? 'update' : 'get';
  // Port and protocol are below the sub-resource that rights are given for.
  const isPort = below[0] === portForward;
  checkAccess(call.user, { verb, group, resource, subresource: isPort ? portForward : subresource }, target);
  if (volumeSubresources.includes(subresource) && volumeOwners.includes(resource)) {
    return serveVolumes(context, { resource, subresource, target }, call, request, response);
  }
  if (memoryDumpSubresources.includes(subresource) && resource === 'virtualmachines') {
    return serveMemoryDump(context, { subresource, target }, call, request, response);
  }
  if (isMigrationCall(resource, subresource)) {
    return serveMigrationCall(context, { resource, subresource, target }, call, request, response);
  }
  if (resource === 'virtualmachineinstances' && subresource === sevSession) {
    checkGate(context, sevSessionRules.gate);
    const check = (vmi: VirtualMachineInstance) => checkState(vmi, sevSessionRules.checks);
    return serveSevSession(context, target, check, call, request, response);
  }
  if (resource === 'virtualmachines' && subresource === expandSpec) {
    return serveExpandSpec(context, target, request, response);
  }
  const { vmSubresources: agent } = context;
  if (!agent) throw new ApiError('NOT_IMPLEMENTED', 'this server was started without a node agent');
  if (isPort && volumeOwners.includes(resource)) {
    checkMethod(portForward, 'GET', request);
    if (resource === 'virtualmachines') context.reader.get(storedType(resource), target);
    const vmi = checkVmi(context, target, portForwardChecks);
    const port = guestPortOf(context, vmi, below.slice(1));
    const { socket, head } = upgradeOf(request, response, 'virtctl');
    return agent.forward(port, request, socket, head);
  }
  if (resource === 'virtualmachines') return servePower(context, agent, target, subresource, call, request, response);
  const found = vmiSubresources.find((item) => item.name === subresource);
  if (resource !== 'virtualmachineinstances' || !found) throw unknown(resource, subresource);
  checkMethod(found.name, found.method, request);
  if (found.gate) checkGate(context, found.gate);
  if (found.method === 'PUT') bodyOf(call);
  if (found.name === 'unpause') checkNoSnapshot(context, target);
  checkVmi(context, target, found.checks);
  const at = `/v1/namespaces/${namespace}/virtualmachineinstances/${name}/${subresource}`;
  if (found.kind === 'stream') serveStream(agent, at, request, response);
  else await serveCall(agent, { ...found, path: at }, call, response);
}

function isMigrationCall(resource: string, subresource: string): boolean {
  if (!migrationSubresources.includes(subresource)) return false;
  return resource === 'virtualmachines' || (resource === 'virtualmachineinstances' && subresource !== 'migrate');
}

function serveStream(agent: VmSubresources, path: string, request: Request, response: Response): void {
  const { socket, head } = upgradeOf(request, response, 'virtctl');
  const query = request.url.indexOf('?');
  request.url = query < 0 ? path : `${path}${request.url.slice(query)}`;
  // Who asked has been checked; the agent need not know its token.
  delete request.headers.authorization;
  agent.upgrade(request, socket, head);
}

async function serveCall(
  agent: VmSubresources,
  { method, path }: { readonly method: 'GET' | 'PUT'; readonly path: string },
  call: ResourceCall,
  response: Response,
): Promise<void> {
  const gone = new AbortController();
  response.on('close', () => gone.abort(new Error('the client has gone')));
  const asking = agent.call(method, path, call.body.toString('utf8'), gone.signal);
  const { httpStatus, contentType, body } = await asking.catch((cause: unknown) => {
    throw new ApiError('SERVICE_UNAVAILABLE', errorMessage(cause), { cause });
  });
  if (httpStatus > 299) throw refusal(httpStatus, body.toString('utf8').trim());
  response
    .status(200)
    .set('Content-Type', contentType || 'text/plain')
    .end(body);
}

/** The agent's own word; virt-api makes a 500 of everything, and hides it behind "unexpected return code". */
function refusal(httpStatus: number, message: string): ApiError {
  if (httpStatus === 400) return badRequest(message);
  if (httpStatus === 404) return new ApiError('NOT_FOUND', message);
  // The agent's word on a checkpoint that is of no use any more.
  if (httpStatus === 422) return new ApiError('INVALID', message);
  if (httpStatus === 501) return new ApiError('NOT_IMPLEMENTED', message);
  return new ApiError(httpStatus === 503 ? 'SERVICE_UNAVAILABLE' : 'INTERNAL_ERROR', message);
}

async function servePower(
  context: ApiContext,
  agent: VmSubresources,
  target: VmTarget,
  subresource: string,
  call: ResourceCall,
  request: Request,
  response: Response,
): Promise<void> {
  const action = vmSubresources.find((name) => name === subresource);
  if (!action) throw unknown('virtualmachines', subresource);
  checkMethod(action, 'PUT', request);
  const body = bodyOf(call);
  const outcome = await agent.power(action, target, at(body, 'paused') === true, context.stopping);
  if (outcome.kind === 'refused') {
    throw new ApiError(outcome.why === 'not-found' ? 'NOT_FOUND' : 'CONFLICT', outcome.message);
  }
  response.status(202).end();
}

/** Throws ApiError NOT_FOUND, or CONFLICT with what is not as it must be. */
function checkVmi(context: ApiContext, target: VmTarget, checks: VmSubresource['checks']): VirtualMachineInstance {
  const vmi = context.reader.get(storedType('virtualmachineinstances'), target)
    .object as unknown as VirtualMachineInstance;
  checkState(vmi, checks);
  return vmi;
}

function checkState(vmi: VirtualMachineInstance, checks: VmSubresource['checks']): void {
  const { name } = vmi.metadata;
  for (const check of checks) {
    const problem = check(vmi);
    if (!problem) continue;
    const text = `Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "${name}": ${problem}`;
    throw new ApiError('CONFLICT', text, { details: { name, group: 'kubevirt.io', kind: 'virtualmachineinstance' } });
  }
}

function checkGate(context: ApiContext, gate: NonNullable<VmSubresource['gate']>): void {
  if (!clusterDefaults(context).gates[gate]) throw badRequest(`'${gate}' feature gate is not enabled`);
}

/** A snapshot may hold the guest still (upstream: UnpauseVMIRequestHandler in pkg/virt-api/rest/lifecycle.go). Of a VMI without a VM there is none. */
function checkNoSnapshot(context: ApiContext, target: VmTarget): void {
  const snapshot = stringAt(vmIfThere(context, target), 'status', 'snapshotInProgress');
  if (!snapshot) return;
  const text = `Operation cannot be fulfilled on virtualmachine.kubevirt.io "${target.name}": snapshot "${snapshot}" of it is in progress: unpause it when that is done`;
  throw new ApiError('CONFLICT', text, {
    details: { name: target.name, group: 'kubevirt.io', kind: 'virtualmachine' },
  });
}

function vmIfThere({ reader }: ApiContext, target: VmTarget): unknown {
  try {
    return reader.get(storedType('virtualmachines'), target).object;
  } catch (error) {
    if (error instanceof ApiError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

function storedType(resource: string): ApiType {
  const type = findType('kubevirt.io', 'v1', resource);
  if (!type) throw noSuchPath(group, version, resource);
  return type;
}

/** Options that would change what happens are refused, not passed over. */
function bodyOf(call: ResourceCall): unknown {
  if (call.body.length === 0) return undefined;
  const body = parseBody(call.body, call.contentType ?? 'application/json');
  if (isDryRun(at(body, 'dryRun'))) throw new ApiError('NOT_IMPLEMENTED', 'this server has no dry run of this');
  const given = ['gracePeriod', 'gracePeriodSeconds'].find((field) => typeof at(body, field) === 'number');
  if (given === undefined) return body;
  const text = `${given} is not implemented: spec.template.spec.terminationGracePeriodSeconds says how long a VM has`;
  throw new ApiError('NOT_IMPLEMENTED', text);
}

function checkMethod(name: string, method: string, request: Request): void {
  if (request.method === method) return;
  throw new ApiError('METHOD_NOT_ALLOWED', `${request.method} is not supported on ${name}: use ${method}`);
}

function unknown(resource: string, subresource: string): ApiError {
  const [head = ''] = subresource.split('/');
  if (!knownVmSubresources.includes(head)) return noSuchPath(group, version, `${resource}/${subresource}`);
  return new ApiError('NOT_IMPLEMENTED', `${resource}/${subresource} is not implemented by this server`);
}
