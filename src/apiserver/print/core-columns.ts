import { isRecord } from '../../base/index.ts';
import type { Column } from '../api-type.ts';
import { type ApiObject, at, numberAt, objectsAt, stringAt } from '../object.ts';
import { ageColumn, atPath, column, nameColumn, wide } from './column.ts';
import { age } from './duration.ts';

const countOf = (value: unknown) => (isRecord(value) ? Object.keys(value).length : 0);
const orNone = (value: string | undefined) => (value ? value : '<none>');
const orUnknown = (value: string | undefined) => (value ? value : '<unknown>');

export const namespaceColumns: readonly Column[] = [nameColumn, column('Status', atPath('status', 'phase')), ageColumn];

export const configMapColumns: readonly Column[] = [
  nameColumn,
  column('Data', (map) => countOf(at(map, 'data')) + countOf(at(map, 'binaryData')), { type: 'integer' }),
  ageColumn,
];

export const secretColumns: readonly Column[] = [
  nameColumn,
  column('Type', atPath('type')),
  column('Data', (secret) => countOf(at(secret, 'data')), { type: 'integer' }),
  ageColumn,
];

export const serviceAccountColumns: readonly Column[] = [
  nameColumn,
  column('Secrets', (account) => objectsAt(account, 'secrets').length, { type: 'integer' }),
  ageColumn,
];

export const serviceColumns: readonly Column[] = [
  nameColumn,
  column('Type', (service) => stringAt(service, 'spec', 'type') ?? 'ClusterIP'),
  column('Cluster-IP', (service) => orNone(stringAt(service, 'spec', 'clusterIP'))),
  column('External-IP', () => '<none>'),
  column('Port(s)', servicePorts),
  ageColumn,
  wide('Selector', (service) => pairs(at(service, 'spec', 'selector'))),
];

export const endpointsColumns: readonly Column[] = [nameColumn, column('Endpoints', endpointAddresses), ageColumn];

export const endpointSliceColumns: readonly Column[] = [
  nameColumn,
  column('AddressType', atPath('addressType')),
  column('Ports', (slice) =>
    shownList(
      objectsAt(slice, 'ports').map(({ port }) => String(port ?? '*')),
      '<unset>',
    ),
  ),
  column('Endpoints', (slice) => {
    const all = objectsAt(slice, 'endpoints').flatMap(({ addresses }) => (Array.isArray(addresses) ? addresses : []));
    return shownList(all.map(String), '<unset>');
  }),
  ageColumn,
];

export const leaseColumns: readonly Column[] = [
  nameColumn,
  column('Holder', atPath('spec', 'holderIdentity')),
  ageColumn,
];

export const controllerRevisionColumns: readonly Column[] = [
  nameColumn,
  column('Controller', (revision) => {
    const owner = revision.metadata.ownerReferences?.find((reference) => reference.controller);
    return owner ? `${owner.kind.toLowerCase()}/${owner.name}` : '<none>';
  }),
  column('Revision', atPath('revision'), { type: 'integer' }),
  ageColumn,
];

export const crdColumns: readonly Column[] = [
  nameColumn,
  column('Created At', (object) => object.metadata.creationTimestamp ?? '', { type: 'date' }),
];

export const nodeColumns: readonly Column[] = [
  nameColumn,
  column('Status', nodeStatus),
  column('Roles', nodeRoles),
  ageColumn,
  column('Version', atPath('status', 'nodeInfo', 'kubeletVersion')),
  wide('Internal-IP', (node) => nodeAddress(node, 'InternalIP')),
  wide('External-IP', (node) => nodeAddress(node, 'ExternalIP')),
  wide('OS-Image', (node) => orUnknown(stringAt(node, 'status', 'nodeInfo', 'osImage'))),
  wide('Kernel-Version', (node) => orUnknown(stringAt(node, 'status', 'nodeInfo', 'kernelVersion'))),
  wide('Container-Runtime', (node) => orUnknown(stringAt(node, 'status', 'nodeInfo', 'containerRuntimeVersion'))),
];

export const eventColumns: readonly Column[] = [
  column('Last Seen', lastSeen),
  column('Type', atPath('type')),
  column('Reason', atPath('reason')),
  column('Object', involved),
  wide('Subobject', atPath('involvedObject', 'fieldPath')),
  wide('Source', eventSource),
  column('Message', (event) => (stringAt(event, 'message') ?? '').trim()),
  wide('First Seen', (event, now) => age(firstTime(event), now)),
  wide('Count', (event) => numberAt(event, 'count') ?? numberAt(event, 'series', 'count') ?? 1, { type: 'integer' }),
  { ...nameColumn, priority: 1 },
];

function servicePorts(service: ApiObject): string {
  const ports = objectsAt(service, 'spec', 'ports');
  if (ports.length === 0) return '<none>';
  return ports
    .map(({ port, nodePort, protocol }) => `${port}${nodePort ? `:${nodePort}` : ''}/${protocol ?? 'TCP'}`)
    .join(',');
}

function pairs(value: unknown): string {
  if (!isRecord(value) || countOf(value) === 0) return '<none>';
  return Object.entries(value)
    .map(([key, text]) => `${key}=${text}`)
    .join(',');
}

function endpointAddresses(endpoints: ApiObject): string {
  const shown = objectsAt(endpoints, 'subsets').flatMap((subset) =>
    objectsAt(subset, 'addresses').flatMap((address) => {
      const ports = objectsAt(subset, 'ports');
      const ip = stringAt(address, 'ip') ?? '';
      return ports.length === 0 ? [ip] : ports.map((port) => `${ip}:${numberAt(port, 'port') ?? ''}`);
    }),
  );
  return shownList(shown, '<none>');
}

/** The first three. */
function shownList(items: readonly string[], none: string): string {
  if (items.length === 0) return none;
  return items.length > 3 ? `${items.slice(0, 3).join(',')} + ${items.length - 3} more...` : items.join(',');
}

function nodeStatus(node: ApiObject): string {
  const ready = objectsAt(node, 'status', 'conditions').find(({ type }) => type === 'Ready');
  const words = [ready === undefined ? 'Unknown' : ready.status === 'True' ? 'Ready' : 'NotReady'];
  if (at(node, 'spec', 'unschedulable') === true) words.push('SchedulingDisabled');
  return words.join(',');
}

function nodeRoles(node: ApiObject): string {
  const prefix = 'node-role.kubernetes.io/';
  const labels = Object.entries(node.metadata.labels ?? {});
  const roles = labels.flatMap(([key, value]) => {
    if (key.startsWith(prefix) && key.length > prefix.length) return [key.slice(prefix.length)];
    return key === 'kubernetes.io/role' && value !== '' ? [value] : [];
  });
  return roles.length === 0 ? '<none>' : [...new Set(roles)].sort().join(',');
}

function nodeAddress(node: ApiObject, type: string): string {
  const found = objectsAt(node, 'status', 'addresses').find((address) => address.type === type);
  return orNone(stringAt(found, 'address'));
}

function firstTime(event: ApiObject): unknown {
  return at(event, 'firstTimestamp') ?? at(event, 'eventTime');
}

function lastSeen(event: ApiObject, now: Date): string {
  const last = at(event, 'series', 'lastObservedTime') ?? at(event, 'lastTimestamp') ?? firstTime(event);
  return age(last, now);
}

function involved(event: ApiObject): string {
  const kind = stringAt(event, 'involvedObject', 'kind') ?? '';
  const name = stringAt(event, 'involvedObject', 'name') ?? '';
  return `${kind.toLowerCase()}/${name}`;
}

function eventSource(event: ApiObject): string {
  const component = stringAt(event, 'source', 'component') || stringAt(event, 'reportingComponent') || '';
  const host = stringAt(event, 'source', 'host') || stringAt(event, 'reportingInstance') || '';
  return host === '' ? component : `${component}, ${host}`;
}
