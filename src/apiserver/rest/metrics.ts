import { checkAccess } from '../access.ts';
import type { ApiType } from '../api-type.ts';
import { ApiError, notFound } from '../errors.ts';
import { type ApiObject, objectsAt, stringAt } from '../object.ts';
import { findType, metricsGroup } from '../types/index.ts';
import type { Usage, UsageSample } from '../usage.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { noSuchPath } from './request.ts';

const { group, version } = metricsGroup;
const apiVersion = `${group}/${version}`;

interface Asked {
  readonly resource: 'nodes' | 'pods';
  readonly namespace: string | undefined;
  readonly name: string | undefined;
}

/** `metrics.k8s.io`, which `kubectl top` reads: what nodes and pods use of CPU and memory. Throws ApiError. */
export async function serveMetrics(
  context: ApiContext,
  segments: readonly string[],
  { user, query }: ResourceCall,
  method: string,
): Promise<object> {
  const asked = askedOf(segments);
  const type = asked && findType('', 'v1', asked.resource);
  if (!asked || !type) throw noSuchPath(group, version, segments.at(-1) ?? '');
  const { resource, namespace, name } = asked;
  if (method !== 'GET')
    throw new ApiError('METHOD_NOT_ALLOWED', `${method} is not supported on ${resource} of ${group}`);
  const verb = name === undefined ? 'list' : 'get';
  checkAccess(user, { verb, group, resource, subresource: undefined }, { namespace, name });
  const { usage, reader } = context;
  if (!usage) throw new ApiError('NOT_IMPLEMENTED', 'this server has no figures of CPU and memory');
  const sample = await usage.sample();
  if (name !== undefined) {
    const metrics = metricsOf(reader.get(type, { namespace: namespace ?? '', name }).object, type, sample);
    if (!metrics) throw notFound({ group, resource, kind: type.kind }, name);
    return metrics;
  }
  const { entries } = reader.list(type, namespace, query);
  const items = entries.flatMap(({ object }) => metricsOf(object, type, sample) ?? []);
  return { kind: `${type.kind}MetricsList`, apiVersion, metadata: {}, items };
}

function askedOf(segments: readonly string[]): Asked | undefined {
  const isInNamespace = segments[0] === 'namespaces' && segments.length > 2;
  const namespace = isInNamespace ? segments[1] : undefined;
  const [resource, name, ...more] = isInNamespace ? segments.slice(2) : segments;
  if (more.length > 0 || (resource !== 'nodes' && resource !== 'pods')) return undefined;
  const isMisplaced = resource === 'nodes' ? isInNamespace : name !== undefined && !isInNamespace;
  return isMisplaced ? undefined : { resource, namespace, name };
}

/** undefined: no process of it lives. */
function metricsOf(object: ApiObject, { kind }: ApiType, { at, windowMs, machine, pods }: UsageSample) {
  const { name, namespace, uid = '', labels } = object.metadata;
  const usage = kind === 'Node' ? machine : pods.get(uid);
  if (!usage) return undefined;
  const metadata = {
    name,
    ...(namespace !== undefined && { namespace }),
    ...(labels && { labels }),
    creationTimestamp: at.toISOString(),
  };
  const head = { kind: `${kind}Metrics`, apiVersion, metadata, timestamp: at.toISOString(), window: `${windowMs}ms` };
  if (kind === 'Node') return { ...head, usage: quantities(usage) };
  const container = stringAt(objectsAt(object, 'spec', 'containers')[0], 'name') ?? '';
  return { ...head, containers: [{ name: container, usage: quantities(usage) }] };
}

function quantities({ cpuNanocores, memoryBytes }: Usage) {
  return { cpu: `${Math.round(cpuNanocores)}n`, memory: `${Math.round(memoryBytes / 1024)}Ki` };
}
