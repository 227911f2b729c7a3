import type { KubeObject, VirtualMachine, VirtualMachineInstance } from '../../api/index.ts';
import { CallError, call, type Vm } from './server-calls.ts';

/** Requests to the Kubernetes API, which the page's server passes on as they are. All reject with CallError. */

export interface PodObject extends KubeObject {
  readonly spec?: {
    readonly containers?: readonly { readonly name: string }[];
    readonly initContainers?: readonly { readonly name: string; readonly restartPolicy?: string }[];
  };
  readonly status?: { readonly phase?: string };
}

export interface EventObject extends KubeObject {
  readonly type?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly count?: number;
  readonly firstTimestamp?: string | null;
  readonly lastTimestamp?: string | null;
  readonly eventTime?: string | null;
  readonly involvedObject?: { readonly kind?: string; readonly name?: string };
}

/** Of a launcher pod: the name of its VMI; of a long one the label has a part. */
const domainAnnotation = 'kubevirt.io/domain';
const nameLabel = 'vmi.kubevirt.io/id';
/** Of a label's value. */
const maxLabelLength = 63;
const json = 'application/json';
const yaml = 'application/yaml';
const logLines = 2_000;
const logBytes = 1_048_576;

export function vmPath({ namespace, name }: Vm, kind = 'virtualmachines'): string {
  return `/apis/kubevirt.io/v1/namespaces/${namespace}/${kind}/${name}`;
}

/** Undefined: there is none. */
export async function getVm(vm: Vm, signal?: AbortSignal): Promise<VirtualMachine | undefined> {
  return getIfThere<VirtualMachine>(vmPath(vm), signal);
}

export async function getVmi(vm: Vm, signal?: AbortSignal): Promise<VirtualMachineInstance | undefined> {
  return getIfThere<VirtualMachineInstance>(vmPath(vm, 'virtualmachineinstances'), signal);
}

/** The text as the API reads it: what is wrong with it, and where, is the API's answer. `isTrial`: nothing is written. */
export async function createVm(namespace: string, text: string, isTrial: boolean): Promise<VirtualMachine> {
  const path = `/apis/kubevirt.io/v1/namespaces/${namespace}/virtualmachines`;
  return (await send('POST', `${path}?${writeQuery(isTrial)}`, text, yaml)).json();
}

export async function replaceVm(vm: Vm, text: string, isTrial: boolean): Promise<VirtualMachine> {
  return (await send('PUT', `${vmPath(vm)}?${writeQuery(isTrial)}`, text, yaml)).json();
}

/** `kind`: of an instance alone, `virtualmachineinstances`. */
export async function deleteVm(vm: Vm, kind?: 'virtualmachineinstances'): Promise<void> {
  await remove(vmPath(vm, kind));
}

export async function createClaim(namespace: string, claim: object, isTrial: boolean): Promise<void> {
  await create(`/api/v1/namespaces/${namespace}/persistentvolumeclaims`, claim, isTrial);
}

/** As kubectl: a field that the API does not know is refused. */
function writeQuery(isTrial: boolean): URLSearchParams {
  return new URLSearchParams({ fieldValidation: 'Strict', ...(isTrial && { dryRun: 'All' }) });
}

/** Launcher pods, the youngest first. */
export async function podsOf({ namespace, name }: Vm, signal: AbortSignal): Promise<readonly PodObject[]> {
  const isShort = name.length <= maxLabelLength;
  const labelSelector = isShort ? `${nameLabel}=${name}` : 'kubevirt.io=virt-launcher';
  const query = new URLSearchParams({ labelSelector });
  const pods = await list<PodObject>(`/api/v1/namespaces/${namespace}/pods?${query}`, signal);
  const made = ({ metadata }: PodObject) => metadata.creationTimestamp ?? '';
  const own = pods.filter(({ metadata }) => metadata.annotations?.[domainAnnotation] === name);
  return own.sort((one, other) => (made(one) < made(other) ? 1 : -1));
}

/** Of the VM, its instance and its pods. */
export async function eventsOf(vm: Vm, signal: AbortSignal): Promise<readonly EventObject[]> {
  const pods = await podsOf(vm, signal);
  const names = [vm.name, ...pods.map(({ metadata }) => metadata.name)];
  const of = (name: string) => {
    const query = new URLSearchParams({ fieldSelector: `involvedObject.name=${name}` });
    return list<EventObject>(`/api/v1/namespaces/${vm.namespace}/events?${query}`, signal);
  };
  return (await Promise.all(names.map(of))).flat();
}

/** The last lines. */
export async function logOf(namespace: string, pod: string, container: string, signal: AbortSignal): Promise<string> {
  const query = new URLSearchParams({ container, tailLines: `${logLines}`, limitBytes: `${logBytes}` });
  return (
    await send('GET', `/api/v1/namespaces/${namespace}/pods/${pod}/log?${query}`, undefined, json, signal)
  ).text();
}

/** What there is to choose from, by name; nothing where the API has no such kind. */
export async function objectsAt(path: string): Promise<readonly KubeObject[]> {
  const items = await list<KubeObject>(path).catch(() => []);
  return [...items].sort((one, other) => (one.metadata.name < other.metadata.name ? -1 : 1));
}

export async function namesAt(path: string): Promise<readonly string[]> {
  return (await objectsAt(path)).map(({ metadata }) => metadata.name);
}

/** Of instance types and preferences. */
export const instancetypes = '/apis/instancetype.kubevirt.io/v1beta1';

/** All there are at a path. */
export async function list<T extends KubeObject>(path: string, signal?: AbortSignal): Promise<readonly T[]> {
  const { items = [] }: { readonly items?: readonly T[] } = await (
    await send('GET', path, undefined, json, signal)
  ).json();
  return items;
}

async function getIfThere<T>(path: string, signal?: AbortSignal): Promise<T | undefined> {
  try {
    return await (await send('GET', path, undefined, json, signal)).json();
  } catch (error) {
    if (error instanceof CallError && error.httpStatus === 404) return undefined;
    throw error;
  }
}

/** `isTrial`: nothing is made. */
export async function create(path: string, object: object, isTrial = false): Promise<void> {
  await send('POST', `${path}?${writeQuery(isTrial)}`, JSON.stringify(object), json);
}

export async function replace(path: string, object: object): Promise<void> {
  await send('PUT', `${path}?${writeQuery(false)}`, JSON.stringify(object), json);
}

export async function remove(path: string): Promise<void> {
  await send('DELETE', path);
}

function send(
  method: string,
  path: string,
  body?: string,
  contentType = json,
  signal?: AbortSignal,
): Promise<Response> {
  const headers = { accept: json, ...(body !== undefined && { 'content-type': contentType }) };
  return call(`/kube${path}`, { method, headers, ...(body !== undefined && { body }), ...(signal && { signal }) });
}
