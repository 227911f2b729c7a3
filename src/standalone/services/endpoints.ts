import type { EndpointAddress, EndpointSlice, Endpoints, Pod, Service, ServicePort } from '../../api/index.ts';
import { slicesOf } from './endpoint-slices.ts';
import { type EndpointGroup, groupsOf, type Member, membersOf, targetOf, whereabouts } from './members.ts';

export interface EndpointsOfService {
  readonly object: Endpoints;
  /** The same for those who read EndpointSlices. */
  readonly slices: readonly EndpointSlice[];
  /** Of the pods that are ready. */
  readonly of: (port: ServicePort) => readonly { readonly address: string; readonly port: number }[];
}

/** Pods with their own addresses that a Service selects, by name. */
export function endpointsOf(service: Service, pods: readonly Pod[]): EndpointsOfService {
  const members = membersOf(service, pods);
  const of = (port: ServicePort) =>
    members.flatMap(({ pod, address, isReady: is }) => {
      const target = targetOf(port, pod);
      return is && target !== undefined ? [{ address, port: target }] : [];
    });
  const groups = groupsOf(service, members);
  return { object: objectOf(service, groups), slices: slicesOf(service, groups), of };
}

function objectOf(service: Service, groups: readonly EndpointGroup[]): Endpoints {
  const subsets = groups.map(({ ports, members: all }) => {
    const ready = all.filter((each) => each.isReady).map(addressOf);
    const others = all.filter((each) => !each.isReady).map(addressOf);
    return {
      ...(ready.length > 0 && { addresses: ready }),
      ...(others.length > 0 && { notReadyAddresses: others }),
      ports: [...ports],
    };
  });
  const { name, namespace, uid, labels } = service.metadata;
  return {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(labels && { labels }),
      ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name, uid: uid ?? '' }],
    },
    ...(subsets.length > 0 && { subsets }),
  };
}

function addressOf({ pod, address }: Member): EndpointAddress {
  return { ip: address, ...whereabouts(pod) };
}
