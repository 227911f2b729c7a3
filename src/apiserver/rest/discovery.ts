import type { ApiType, Subresource } from '../api-type.ts';
import {
  expandSpec,
  type GroupVersion,
  groupVersions,
  memoryDumpSubresources,
  metricsGroup,
  migrationSubresources,
  portForward,
  reviewGroups,
  typesOf,
  uploadGroup,
  verbsOf,
  vmiSubresources,
  vmSubresourceGroup,
  vmSubresources,
  volumeSubresources,
} from '../types/index.ts';
import { parseAccept } from './negotiate.ts';
import { reviewResources } from './reviews.ts';
import { uploadTokenRequests } from './upload-token.ts';

export const aggregatedType = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

/** kubectl since 1.26 asks for all groups in one answer. */
export function wantsAggregated(accept: string | undefined): boolean {
  return parseAccept(accept).some(({ type, parameters }) => {
    const { g, v, as } = parameters;
    return type === 'application/json' && g === 'apidiscovery.k8s.io' && v === 'v2' && as === 'APIGroupDiscoveryList';
  });
}

const nameOf = ({ group, version }: GroupVersion) => (group === '' ? version : `${group}/${version}`);

export function coreVersions(host: string): object {
  return {
    kind: 'APIVersions',
    versions: ['v1'],
    serverAddressByClientCIDRs: [{ clientCIDR: '0.0.0.0/0', serverAddress: host }],
  };
}

function groupOf(group: string): object {
  const versions = groupVersions()
    .filter((item) => item.group === group)
    .map((item) => ({ groupVersion: nameOf(item), version: item.version }));
  return { name: group, versions, preferredVersion: versions[0] };
}

const groupNames = () => [...new Set(groupVersions().map(({ group }) => group))].filter((group) => group !== '');

export function groupList(): object {
  return { kind: 'APIGroupList', apiVersion: 'v1', groups: groupNames().map(groupOf) };
}

/** undefined for a group that is not here. */
export function oneGroup(group: string): object | undefined {
  if (!groupNames().includes(group)) return undefined;
  return { kind: 'APIGroup', apiVersion: 'v1', ...groupOf(group) };
}

export function resourceList(groupVersion: GroupVersion): object | undefined {
  const types = typesOf(groupVersion);
  const isReview = reviewGroups.some(
    ({ group, version }) => group === groupVersion.group && version === groupVersion.version,
  );
  const vms = isVmGroup(groupVersion)
    ? vmResources().flatMap(({ resource, below }) =>
        below.map((name) => ({ ...vmResource(name), name: `${resource}/${name}` })),
      )
    : [];
  const metrics = isMetricsGroup(groupVersion) ? metricsResources : [];
  if (types.length === 0 && !isReview && vms.length === 0 && metrics.length === 0) return undefined;
  const resources = [
    ...types.flatMap(resourcesOf),
    ...metrics,
    ...questionsOf(groupVersion.group).map(reviewResource),
    ...vms,
  ];
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: nameOf(groupVersion), resources };
}

const metricsResources = [
  { name: 'nodes', singularName: '', namespaced: false, kind: 'NodeMetrics', verbs: ['get', 'list'] },
  { name: 'pods', singularName: '', namespaced: true, kind: 'PodMetrics', verbs: ['get', 'list'] },
] as const;

function isMetricsGroup({ group, version }: GroupVersion): boolean {
  return group === metricsGroup.group && version === metricsGroup.version;
}

function aggregatedMetrics({ name, namespaced, kind, verbs }: (typeof metricsResources)[number]): object {
  const scope = namespaced ? 'Namespaced' : 'Cluster';
  return { resource: name, responseKind: { ...metricsGroup, kind }, scope, singularResource: '', verbs };
}

/** Sub-resources whose objects belong to another group. */
interface VmResources {
  readonly resource: string;
  readonly below: readonly string[];
}

function isVmGroup({ group, version }: GroupVersion): boolean {
  return group === vmSubresourceGroup.group && version === vmSubresourceGroup.version;
}

function vmResources(): readonly VmResources[] {
  return [
    {
      resource: 'virtualmachineinstances',
      below: [...vmiSubresources.map(({ name }) => name), ...volumeSubresources, 'evacuate/cancel', portForward],
    },
    {
      resource: 'virtualmachines',
      below: [
        ...vmSubresources,
        ...volumeSubresources,
        ...memoryDumpSubresources,
        ...migrationSubresources,
        expandSpec,
        portForward,
      ],
    },
  ];
}

function vmResource(name: string) {
  return { name, singularName: '', namespaced: true, kind: 'VirtualMachineSubresource', verbs: vmVerbs(name) };
}

function vmVerbs(name: string): readonly string[] {
  const isRead =
    [expandSpec, portForward].includes(name) ||
    vmiSubresources.some((item) => item.name === name && item.method === 'GET');
  return isRead ? ['get'] : ['update'];
}

/** Without a kind of its own: so kubectl takes it for nothing but the parent of its sub-resources. */
function aggregatedVms({ resource, below }: VmResources): object {
  const responseKind = { ...vmSubresourceGroup, kind: 'VirtualMachineSubresource' };
  const subresources = below.map((name) => ({ subresource: name, responseKind, verbs: vmVerbs(name) }));
  return { resource, scope: 'Namespaced', singularResource: '', verbs: [], subresources };
}

function resourcesOf(type: ApiType): object[] {
  const { resource, singular, namespaced, kind, shortNames, categories } = type;
  const main = {
    name: resource,
    singularName: singular,
    namespaced,
    kind,
    verbs: verbsOf(type),
    ...(shortNames.length > 0 ? { shortNames } : {}),
    ...(categories.length > 0 ? { categories } : {}),
  };
  const below = subresourcesOf(type).map(({ name, group, version, kind: subKind, verbs }) => ({
    name: `${resource}/${name}`,
    singularName: '',
    namespaced,
    ...(group === undefined ? {} : { group, version }),
    kind: subKind,
    verbs,
  }));
  return [main, ...below];
}

function subresourcesOf(type: ApiType): readonly Subresource[] {
  const status: Subresource = { name: 'status', kind: type.kind, verbs: ['get', 'patch', 'update'] };
  return [...type.subresources, ...(type.statusSubresource ? [status] : [])];
}

/** What is asked with an object that is not kept. */
function questionsOf(group: string): ReturnType<typeof reviewResources> {
  return group === uploadGroup.group ? [uploadTokenRequests] : reviewResources(group);
}

function reviewResource({ resource, kind, namespaced }: ReturnType<typeof reviewResources>[number]): object {
  return { name: resource, singularName: kind.toLowerCase(), namespaced, kind, verbs: ['create'] };
}

/** Both `/api` (core) and `/apis` (all others) in the aggregated form. */
export function aggregated(isCore: boolean): object {
  const names = isCore ? [''] : groupNames();
  const items = names.map((group) => ({
    metadata: { ...(group === '' ? {} : { name: group }), creationTimestamp: null },
    versions: groupVersions()
      .filter((item) => item.group === group)
      .map((item) => ({
        version: item.version,
        resources: [
          ...typesOf(item).map((type) => aggregatedResource(type)),
          ...questionsOf(group).map((review) => aggregatedReview(group, item.version, review)),
          ...(isVmGroup(item) ? vmResources().map(aggregatedVms) : []),
          ...(isMetricsGroup(item) ? metricsResources.map(aggregatedMetrics) : []),
        ],
        freshness: 'Current',
      })),
  }));
  return { kind: 'APIGroupDiscoveryList', apiVersion: 'apidiscovery.k8s.io/v2', metadata: {}, items };
}

function aggregatedResource(type: ApiType): object {
  const { group, version, kind, resource, singular, shortNames, categories, namespaced } = type;
  const subresources = subresourcesOf(type).map((sub) => ({
    subresource: sub.name,
    responseKind: { group: sub.group ?? group, version: sub.version ?? version, kind: sub.kind },
    verbs: sub.verbs,
  }));
  return {
    resource,
    responseKind: { group, version, kind },
    scope: namespaced ? 'Namespaced' : 'Cluster',
    singularResource: singular,
    verbs: verbsOf(type),
    ...(shortNames.length > 0 ? { shortNames } : {}),
    ...(categories.length > 0 ? { categories } : {}),
    ...(subresources.length > 0 ? { subresources } : {}),
  };
}

function aggregatedReview(group: string, version: string, review: ReturnType<typeof reviewResources>[number]): object {
  return {
    resource: review.resource,
    responseKind: { group, version, kind: review.kind },
    scope: review.namespaced ? 'Namespaced' : 'Cluster',
    singularResource: review.kind.toLowerCase(),
    verbs: ['create'],
  };
}

/** `/version`: the Kubernetes level whose behaviour is followed. */
export const versionInfo = {
  major: '1',
  minor: '32',
  gitVersion: 'v1.32.0+virt-node',
  gitCommit: '',
  gitTreeState: 'clean',
  buildDate: '2025-01-01T00:00:00Z',
  goVersion: 'none',
  compiler: 'node',
  platform: 'linux/amd64',
};
