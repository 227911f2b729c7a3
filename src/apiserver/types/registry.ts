import { type ApiType, allVerbs, readVerbs } from '../api-type.ts';
import { cdiTypes } from './cdi-types.ts';
import { coreTypes } from './core-types.ts';
import { kubevirtTypes } from './kubevirt-types.ts';
import { snapshotTypes } from './snapshot-types.ts';
import { vmSubresourceGroup } from './vm-subresource-types.ts';

/** All resources of the server; the list that discovery, routes and the garbage collector read. */
export const apiTypes: readonly ApiType[] = [...coreTypes, ...kubevirtTypes, ...cdiTypes, ...snapshotTypes];

const byResource = new Map(apiTypes.map((type) => [`${type.group}/${type.version}/${type.resource}`, type]));

export function findType(group: string, version: string, resource: string): ApiType | undefined {
  return byResource.get(`${group}/${version}/${resource}`);
}

export function findKind(apiVersion: string, kind: string): ApiType | undefined {
  const slash = apiVersion.indexOf('/');
  const [group, version] = slash < 0 ? ['', apiVersion] : [apiVersion.slice(0, slash), apiVersion.slice(slash + 1)];
  return apiTypes.find((type) => type.group === group && type.version === version && type.kind === kind);
}

export interface GroupVersion {
  readonly group: string;
  readonly version: string;
}

/** Tokens for uploads. */
export const uploadGroup: GroupVersion = { group: 'upload.cdi.kubevirt.io', version: 'v1beta1' };

/** Groups whose resources only answer questions (`kubectl auth can-i`, `whoami`, tokens); nothing of them is stored. */
export const reviewGroups: readonly GroupVersion[] = [
  { group: 'authentication.k8s.io', version: 'v1' },
  { group: 'authorization.k8s.io', version: 'v1' },
  uploadGroup,
];

/** Figures of nodes and pods, which are not stored (`kubectl top`). */
export const metricsGroup: GroupVersion = { group: 'metrics.k8s.io', version: 'v1beta1' };

/** Each group and version once, the core group first. */
export function groupVersions(): readonly GroupVersion[] {
  const all = [
    ...apiTypes.map(({ group, version }) => ({ group, version })),
    ...reviewGroups,
    vmSubresourceGroup,
    metricsGroup,
  ];
  const seen = new Map(all.map((item) => [`${item.group}/${item.version}`, item]));
  return [...seen.values()].sort((a, b) => Number(a.group !== '') - Number(b.group !== ''));
}

export function typesOf({ group, version }: GroupVersion): readonly ApiType[] {
  return apiTypes.filter((type) => type.group === group && type.version === version);
}

export function verbsOf(type: ApiType): readonly string[] {
  return type.readOnly ? readVerbs : allVerbs;
}
