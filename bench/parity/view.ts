import type { PlayedCall } from './played-launcher.ts';
import type { Json } from './started-domain.ts';

/** All that can be seen from outside at one moment, without what differs by nature: times, UIDs, versions, addresses of memory. */
export interface Look {
  readonly at: string;
  readonly view: Json;
}

export interface Names {
  readonly scenario: string;
  readonly namespace: string;
  readonly privateDir: string;
  readonly podsDir: string;
  readonly uids: readonly string[];
}

interface Seen {
  readonly vmi: Json | undefined;
  readonly events: readonly Json[];
  readonly ghosts: readonly Json[];
  readonly calls: readonly PlayedCall[];
}

export function lookAt(at: string, { vmi, events, ghosts, calls }: Seen, names: Names): Look {
  const view = {
    calls: collapsed(calls.map(({ rpc }) => rpc)),
    requests: requestsOf(calls),
    vmi: vmi ? vmiView(vmi) : 'none',
    events: eventsView(events),
    ghosts: ghosts.map((ghost) => ghost),
  };
  return { at, view: withoutNature(view, names) };
}

/** The same command again and again is one: how often is an agent's own affair. */
function collapsed(rpcs: readonly string[]): string {
  return rpcs.filter((rpc, index) => rpc !== rpcs[index - 1]).join(', ') || 'none';
}

/** The first request of each command: the body that mattered. */
function requestsOf(calls: readonly PlayedCall[]): Json {
  const requests: Json = {};
  for (const { rpc, request } of calls) requests[rpc] ??= requestView(request);
  return requests;
}

function requestView(request: unknown): Json {
  const { vmi, options, ...rest } = request as Json;
  const decoded = vmi ? JSON.parse(Buffer.from(vmi.vmiJson).toString()) : undefined;
  return { ...rest, vmi: decoded && vmiView(decoded), options: options ?? 'absent' };
}

function vmiView(vmi: Json): Json {
  const { managedFields, resourceVersion, generation, creationTimestamp, ...metadata } = vmi.metadata;
  const status = vmi.status && {
    ...vmi.status,
    conditions: byKey(vmi.status.conditions, 'type'),
    phaseTransitionTimestamps: (vmi.status.phaseTransitionTimestamps ?? []).map(({ phase }: Json) => phase),
  };
  return { ...vmi, metadata, status };
}

function byKey(list: readonly Json[] | undefined, key: string): Json {
  return Object.fromEntries((list ?? []).map((item) => [item[key], item]));
}

function eventsView(events: readonly Json[]): Json {
  const entries = events.map(({ type, reason, message, count, source, involvedObject, reportingComponent }) => {
    const { resourceVersion, ...object } = involvedObject;
    return [`${type} ${reason}: ${message}`, { count, source, object, reportingComponent }] as const;
  });
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

const time = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g;

function withoutNature(view: Json, { namespace, privateDir, podsDir, uids }: Names): Json {
  let text = JSON.stringify(view, (_, value) => (typeof value === 'bigint' ? `${value}` : value));
  for (const [index, uid] of uids.entries()) text = text.replaceAll(uid, `<uid ${index + 1}>`);
  text = text.replaceAll(namespace, '<namespace>').replaceAll(privateDir, '<private>').replaceAll(podsDir, '/pods');
  text = text.replace(time, (_, fraction) => (fraction ? `<time with ${fraction.length - 1} digits>` : '<time>'));
  return JSON.parse(text);
}
