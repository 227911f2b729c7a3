import { createHash } from 'node:crypto';
import { type EndpointSlice, resources, type Service } from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import { type EndpointGroup, whereabouts } from './members.ts';

const sliceLabels = {
  /** By which kubectl and others find the slices of a Service. */
  service: 'kubernetes.io/service-name',
  manager: 'endpointslice.kubernetes.io/managed-by',
} as const;
const manager = 'virt-node';
/** As Kubernetes' controller has it. */
const maxEndpoints = 100;

/** What of a Service is told in EndpointSlices: one without endpoints where there is no pod, as in a cluster. */
export function slicesOf(service: Service, groups: readonly EndpointGroup[]): EndpointSlice[] {
  const all = groups.length === 0 ? [{ ports: [], members: [] }] : groups;
  return all.flatMap((group) => {
    const count = Math.max(1, Math.ceil(group.members.length / maxEndpoints));
    return Array.from({ length: count }, (_, part) => {
      const members = group.members.slice(part * maxEndpoints, (part + 1) * maxEndpoints);
      return sliceOf(service, { ports: group.ports, members }, part);
    });
  });
}

function sliceOf({ metadata }: Service, { ports, members }: EndpointGroup, part: number): EndpointSlice {
  const { name, namespace, uid = '' } = metadata;
  // The same pods' ports, the same name: a slice is changed, not made anew.
  const mark = createHash('sha256')
    .update(JSON.stringify([ports, part]))
    .digest('hex')
    .slice(0, 5);
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${name}-${mark}`,
      ...(namespace !== undefined && { namespace }),
      labels: { ...metadata.labels, [sliceLabels.service]: name, [sliceLabels.manager]: manager },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    addressType: 'IPv4',
    endpoints: members.map(({ pod, address, isReady, isServing }) => ({
      addresses: [address],
      conditions: { ready: isReady, serving: isServing, terminating: false },
      ...whereabouts(pod),
    })),
    ports: ports.map(({ name: portName = '', port, protocol }) => ({ name: portName, port, protocol })),
  };
}

type Labels = Readonly<Record<string, string>>;

/** What makes these labels of those, as a merge patch has it; undefined: they are the same. */
export function labelChange(before: Labels = {}, wanted: Labels = {}): Record<string, string | null> | undefined {
  const gone = Object.keys(before).filter((key) => !Object.hasOwn(wanted, key));
  const set = Object.entries(wanted).filter(([key, value]) => before[key] !== value);
  if (gone.length + set.length === 0) return undefined;
  return Object.fromEntries([...gone.map((key) => [key, null] as const), ...set]);
}

/** Makes the slices of a Service what they shall be; those of others are left alone. */
export async function writeSlices(
  wanted: readonly EndpointSlice[],
  found: readonly EndpointSlice[],
  { client, signal, onError }: { client: KubeClient; signal: AbortSignal; onError: (error: unknown) => void },
): Promise<void> {
  const type = resources.endpointSlices;
  const refOf = ({ metadata: { name, namespace = '' } }: EndpointSlice) => ({ name, namespace });
  for (const slice of wanted) {
    const had = found.find(({ metadata }) => metadata.name === slice.metadata.name);
    const { endpoints, ports } = slice;
    if (!had) {
      await client.create(type, slice, { signal }).catch(onError);
      continue;
    }
    const labels = labelChange(had.metadata.labels, slice.metadata.labels);
    if (!labels && sameJson([had.endpoints, had.ports], [endpoints, ports])) continue;
    const change = { ...(labels && { metadata: { labels } }), endpoints, ports };
    await client.patch(type, refOf(had), change, 'merge', { signal }).catch(onError);
  }
  const names = new Set(wanted.map(({ metadata }) => metadata.name));
  for (const slice of found) {
    if (!names.has(slice.metadata.name)) await client.delete(type, refOf(slice), { signal }).catch(onError);
  }
}

/** Slices that this node made for a Service. */
export function isSliceOf({ metadata }: EndpointSlice, service: Service): boolean {
  return (
    metadata.labels?.[sliceLabels.manager] === manager &&
    (metadata.ownerReferences?.some(({ uid }) => uid === service.metadata.uid) ?? false)
  );
}
