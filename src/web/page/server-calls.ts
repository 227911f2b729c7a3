import type {
  AgentState,
  ExplainList,
  ExplainReport,
  GuestFigures,
  TimelineReport,
  WaitingReport,
} from '../../api/index.ts';
import type { ImageRow } from '../rows.ts';
import { type FieldProblem, type Refusal, refusalOf } from './refusal.ts';
import type { VmAction } from './row-model.ts';
import { authorization, forget } from './session.ts';

export interface Vm {
  readonly namespace: string;
  readonly name: string;
}

/** What the server says instead of an answer; the message is for people. */
export class CallError extends Error {
  readonly httpStatus: number;
  /** What the Kubernetes API says of single fields. */
  readonly fields: readonly FieldProblem[];

  constructor(httpStatus: number, message: string, fields: readonly FieldProblem[] = []) {
    super(message);
    this.httpStatus = httpStatus;
    this.fields = fields;
  }
}

export function vmiPath({ namespace, name }: Vm): string {
  return `/v1/namespaces/${namespace}/virtualmachineinstances/${name}`;
}

/** Absolute address of a stream of a VM. */
export function streamUrl(vm: Vm, stream: 'console' | 'vnc', query: URLSearchParams): string {
  const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
  return `${scheme}//${location.host}${vmiPath(vm)}/${stream}?${query}`;
}

const ofServer: ReadonlySet<VmAction> = new Set(['start', 'stop', 'restart', 'move', 'cancel-move']);

/** `node`: where to move to; empty: wherever there is room. Rejects with CallError. */
export async function act(vm: Vm, action: VmAction, node = ''): Promise<void> {
  const isOfServer = ofServer.has(action);
  const target = node === '' ? '' : `/${encodeURIComponent(node)}`;
  const path = isOfServer ? `/api/vms/${vm.namespace}/${vm.name}/${action}${target}` : `${vmiPath(vm)}/${action}`;
  await call(path, { method: isOfServer ? 'POST' : 'PUT' });
}

export type NodeAction = 'cordon' | 'uncordon' | 'empty';

/** Gives how many VMs move because of it. Rejects with CallError. */
export async function actOnNode(node: string, action: NodeAction): Promise<number> {
  const answer = await call(`/api/nodes/${encodeURIComponent(node)}/${action}`, { method: 'POST' });
  const body: unknown = await answer.json();
  return typeof body === 'object' && body !== null && 'moves' in body ? Number(body.moves) : 0;
}

export async function explanationOf({ namespace, name }: Vm, signal: AbortSignal): Promise<ExplainReport> {
  return (await call(`/api/why/${namespace}/${name}`, { signal })).json();
}

/** Undefined: nobody knows. */
export async function waitingOf({ namespace, name }: Vm, signal: AbortSignal): Promise<WaitingReport | undefined> {
  try {
    return await (await call(`/api/waiting/${namespace}/${name}`, { signal })).json();
  } catch (error) {
    if (error instanceof CallError && error.httpStatus === 404) return undefined;
    throw error;
  }
}

export async function timelineOf({ namespace, name }: Vm, signal: AbortSignal): Promise<TimelineReport> {
  return (await call(`/api/timeline/${namespace}/${name}`, { signal })).json();
}

/** `node`: whose agent is asked; undefined: the only one, or the first. */
export async function explainAll(node: string | undefined, signal: AbortSignal): Promise<ExplainList> {
  return (await call(`${agentPath(node)}/why`, { signal })).json();
}

export async function agentState(node: string | undefined, signal: AbortSignal): Promise<AgentState> {
  return (await call(`${agentPath(node)}/state`, { signal })).json();
}

function agentPath(node: string | undefined): string {
  return node === undefined ? '/api' : `/api/nodes/${encodeURIComponent(node)}`;
}

export async function screenshot(vm: Vm, signal: AbortSignal): Promise<Blob> {
  return (await call(`${vmiPath(vm)}/vnc/screenshot`, { signal })).blob();
}

export type GuestFactsKind = 'guestosinfo' | 'userlist' | 'filesystemlist';

/** What the guest's agent reports, by sub-path of the VMI. */
export async function guestFacts(vm: Vm, kind: GuestFactsKind, signal: AbortSignal) {
  const body: unknown = await (await call(`${vmiPath(vm)}/${kind}`, { signal })).json();
  return body;
}

/** Why a stream is refused: the same request without an upgrade is answered in words. Empty: that says nothing. */
export async function whyRefused(vm: Vm, stream: 'console' | 'vnc'): Promise<string> {
  try {
    await call(`${vmiPath(vm)}/${stream}`, {});
    return '';
  } catch (error) {
    // 400 and 426 only say that this was no upgrade.
    return error instanceof CallError && ![400, 426].includes(error.httpStatus) ? error.message : '';
  }
}

/** The list and its changes, as server-sent events. Rejects with CallError. */
export async function vmEvents(signal: AbortSignal): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  const { body } = await call('/api/vms/events', { signal });
  if (!body) throw new CallError(0, 'the server does not answer');
  return body;
}

export async function call(path: string, init: RequestInit): Promise<Response> {
  const secret = authorization();
  const headers = { ...init.headers, ...secret };
  const answer = await fetch(path, { ...init, headers }).catch((cause: unknown) => {
    if (init.signal?.aborted) throw cause;
    throw new CallError(0, 'the server does not answer');
  });
  if (answer.ok) return answer;
  if (answer.status === 401) forget(secret);
  const { message, fields } = await refusalIn(answer);
  throw new CallError(answer.status, message || `${answer.status} ${answer.statusText}`, fields);
}

/** The agent answers in plain text, the page's own server and the Kubernetes API in JSON. */
async function refusalIn(answer: Response): Promise<Refusal> {
  const text = (await answer.text()).trim();
  if (!answer.headers.get('content-type')?.includes('json')) return { message: text, fields: [] };
  try {
    return refusalOf(JSON.parse(text));
  } catch {
    return { message: text, fields: [] };
  }
}

export async function figuresOf({ namespace, name }: Vm, signal: AbortSignal): Promise<GuestFigures> {
  return (await call(`/api/figures/${namespace}/${name}`, { signal })).json();
}

export async function listImages(signal: AbortSignal): Promise<readonly ImageRow[]> {
  const { items }: { readonly items: readonly ImageRow[] } = await (await call('/api/images', { signal })).json();
  return items;
}
