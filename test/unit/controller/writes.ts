import { type Condition, finalizers, type KubeObject } from '../../../src/api/index.ts';
import { applyJsonPatch } from '../../../src/apiserver/patch/json-patch.ts';
import type { ApiWrite, Reconciled } from '../../fixtures/controller/one-reconcile.ts';

/** What a reconcile wrote, a word per change: the same for a PUT and for a patch that do the same, once for what is written twice. */
export function wordsOf({ writes, events }: Reconciled, objects: readonly KubeObject[]): string {
  const words = writes.map((write) => wordOf(write, objects));
  return [...new Set([...words, ...events.map((reason) => `event ${reason}`)])].join('; ') || '-';
}

const kinds: Readonly<Record<string, string>> = { virtualmachineinstances: 'vmi', virtualmachines: 'vm', pods: 'pod' };

function wordOf({ method, target, body }: ApiWrite, objects: readonly KubeObject[]): string {
  const [resource = '', name, subresource] = target.split('/');
  const kind = kinds[resource] ?? resource;
  const short = kind === 'pod' && name ? `pod ${name.split('-').at(-1)}` : kind;
  if (method === 'POST') return `create ${short}${createdPaused(body)}`;
  if (method === 'DELETE') return `delete ${short}${guardOf(body)}`;
  const old = objects.find((object) => object.metadata.name === name && kindOf(object) === kind);
  const changes = differences(old, afterWrite(old, body));
  return `${short}${subresource ? `/${subresource}` : ''}: ${changes.join(' ') || 'no change'}`;
}

const kindOf = ({ kind }: KubeObject) => kinds[`${kind?.toLowerCase()}s`];

function createdPaused(body: unknown): string {
  return (body as { spec?: { startStrategy?: string } }).spec?.startStrategy === 'Paused' ? ' paused' : '';
}

function guardOf(body: unknown): string {
  return (body as { preconditions?: { uid?: string } }).preconditions?.uid ? '' : ' (whatever its UID)';
}

type WithStatus = KubeObject & { readonly status?: { readonly conditions?: readonly Condition[] } };

function afterWrite(old: WithStatus | undefined, body: unknown): WithStatus {
  if (Array.isArray(body)) return applyJsonPatch(structuredClone(old), body) as WithStatus;
  const written = body as WithStatus;
  if ('spec' in written) return written;
  // A patch by merging; conditions are merged by their type.
  const conditions = [...(old?.status?.conditions ?? []), ...(written.status?.conditions ?? [])];
  const byType = new Map(conditions.map((condition) => [condition.type, condition]));
  const labels = { ...old?.metadata.labels, ...written.metadata.labels };
  return {
    ...old,
    ...written,
    metadata: { ...old?.metadata, ...written.metadata, ...(written.metadata.labels && { labels }) },
    status: { ...old?.status, ...written.status, ...(byType.size > 0 && { conditions: [...byType.values()] }) },
  };
}

type Fields = Readonly<Record<string, unknown>>;

/** Names of what is different, with the values that tell what happened. */
function differences(old: WithStatus | undefined, after: WithStatus): string[] {
  const [metaOld, meta] = [old?.metadata, after.metadata] as (Fields | undefined)[];
  const [statusOld, status] = [old, after].map((object) => (object as { status?: Fields } | undefined)?.status);
  return [
    ...finalizerChanges(metaOld?.finalizers, meta?.finalizers),
    ...changed(metaOld?.labels, meta?.labels).map((name) => `label:${short(name)}`),
    ...changed(metaOld?.annotations, meta?.annotations).map((name) => `annotation:${short(name)}`),
    ...(same(metaOld?.ownerReferences, meta?.ownerReferences) ? [] : ['owner']),
    ...changed((old as { spec?: Fields } | undefined)?.spec, (after as { spec?: Fields }).spec).map(
      (name) => `spec.${name}`,
    ),
    ...changed(statusOld, status)
      .sort(byName)
      .flatMap((name) => statusChange(name, statusOld?.[name], status?.[name])),
  ];
}

function statusChange(name: string, old: unknown, value: unknown): string[] {
  if (name === 'phase' || name === 'printableStatus') return [`${name}=${value}`];
  // Goes with the phase.
  if (name === 'phaseTransitionTimestamps') return [];
  if (name === 'conditions') return conditionChanges(old as Condition[], value as Condition[]);
  if (name !== 'stateChangeRequests') return [value === undefined ? `-${name}` : name];
  const actions = ((value ?? []) as { action: string }[]).map(({ action }) => action);
  return [`requests=[${actions.join(' ')}]`];
}

function conditionChanges(old: readonly Condition[] = [], conditions: readonly Condition[] = []): string[] {
  const text = ({ type, status, reason }: Condition) => `${short(type)}=${status}${reason ? `/${reason}` : ''}`;
  const before = new Set(old.map(text));
  const types = new Set(conditions.map(({ type }) => type));
  return [
    ...conditions.map(text).filter((each) => !before.has(each)),
    ...old.filter(({ type }) => !types.has(type)).map(({ type }) => `-${type}`),
  ];
}

function finalizerChanges(old: unknown, value: unknown): string[] {
  const [before, after] = [(old ?? []) as string[], (value ?? []) as string[]];
  const nameOf = (finalizer: string) => finalizerNames[finalizer] ?? `finalizer:${finalizer}`;
  return [
    ...after.filter((name) => !before.includes(name)).map((name) => `+${nameOf(name)}`),
    ...before.filter((name) => !after.includes(name)).map((name) => `-${nameOf(name)}`),
  ];
}

function changed(oldFields: unknown, fields: unknown): string[] {
  const [old, value] = [(oldFields ?? {}) as Fields, (fields ?? {}) as Fields];
  return [...new Set([...Object.keys(old), ...Object.keys(value)])].filter((name) => !same(old[name], value[name]));
}

/** What an object is called in the end comes first. */
function byName(one: string, other: string): number {
  const heads = ['phase', 'printableStatus', 'conditions'];
  const rank = (name: string) => (heads.includes(name) ? heads.indexOf(name) : heads.length);
  return rank(one) - rank(other) || (one < other ? -1 : 1);
}

const finalizerNames: Readonly<Record<string, string>> = {
  [finalizers.vmi]: 'finalizer:vmi',
  [finalizers.vm]: 'finalizer:vm',
};

const short = (name: string) => name.replace(/^.*\//, '');
const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);
