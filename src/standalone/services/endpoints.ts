import { isIPv4 } from 'node:net';
import {
  type EndpointAddress,
  type Endpoints,
  findCondition,
  isBeingDeleted,
  type Pod,
  type Service,
  type ServicePort,
  selects,
} from '../../api/index.ts';
import { listOf, memberAt } from '../../base/index.ts';
import { isPort } from './facts.ts';

export interface EndpointsOfService {
  readonly object: Endpoints;
  /** Of the pods that are ready. */
  readonly of: (port: ServicePort) => readonly { readonly address: string; readonly port: number }[];
}

interface Member {
  readonly pod: Pod;
  readonly address: string;
  readonly isReady: boolean;
}

/** Pods with their own addresses that a Service selects, by name. */
export function endpointsOf(service: Service, pods: readonly Pod[]): EndpointsOfService {
  const members = pods
    .filter((pod) => isOfService(service, pod))
    .map((pod) => ({ pod, address: pod.status?.podIP ?? '', isReady: isReady(service, pod) }))
    .sort((one, other) => (one.pod.metadata.name < other.pod.metadata.name ? -1 : 1));
  const of = (port: ServicePort) =>
    members.flatMap(({ pod, address, isReady: is }) => {
      const target = targetOf(port, pod);
      return is && target !== undefined ? [{ address, port: target }] : [];
    });
  return { object: objectOf(service, members), of };
}

function isOfService({ metadata, spec }: Service, pod: Pod): boolean {
  const { podIP = '', phase } = pod.status ?? {};
  // Without a network of its own a pod has its node's address: what listens there is the machine.
  const isReachable = isIPv4(podIP) && podIP !== (pod.status as { hostIP?: string } | undefined)?.hostIP;
  const isOurs =
    pod.metadata.namespace === metadata.namespace &&
    selects({ matchLabels: spec?.selector ?? {} }, pod.metadata.labels ?? {});
  return isOurs && isReachable && phase === 'Running' && !isBeingDeleted(pod);
}

function isReady({ spec }: Service, pod: Pod): boolean {
  return spec?.publishNotReadyAddresses === true || findCondition(pod.status?.conditions, 'Ready')?.status === 'True';
}

/** A number, or the name that a port of the pod has. */
function targetOf({ port, targetPort = port }: ServicePort, { spec }: Pod): number | undefined {
  if (typeof targetPort === 'number') return isPort(targetPort) ? targetPort : undefined;
  const ports = spec.containers.flatMap((container) => listOf(memberAt(container, 'ports')));
  const found = memberAt(
    ports.find((each) => memberAt(each, 'name') === targetPort),
    'containerPort',
  );
  return isPort(found) ? found : undefined;
}

/** A subset for each way in which names of ports are numbers. */
function objectOf(service: Service, members: readonly Member[]): Endpoints {
  const groups = new Map<string, { ports: { name?: string; port: number; protocol: string }[]; members: Member[] }>();
  for (const member of members) {
    const ports = (service.spec?.ports ?? []).flatMap((port) => {
      const target = targetOf(port, member.pod);
      if (target === undefined) return [];
      return [{ ...(port.name !== undefined && { name: port.name }), port: target, protocol: port.protocol ?? 'TCP' }];
    });
    const key = JSON.stringify(ports);
    const group = groups.get(key) ?? { ports, members: [] };
    group.members.push(member);
    groups.set(key, group);
  }
  const subsets = [...groups.values()].map(({ ports, members: all }) => {
    const ready = all.filter((each) => each.isReady).map(addressOf);
    const others = all.filter((each) => !each.isReady).map(addressOf);
    return {
      ...(ready.length > 0 && { addresses: ready }),
      ...(others.length > 0 && { notReadyAddresses: others }),
      ports,
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
  const { name, namespace, uid } = pod.metadata;
  return {
    ip: address,
    ...(pod.spec.nodeName !== undefined && { nodeName: pod.spec.nodeName }),
    targetRef: { kind: 'Pod', name, ...(namespace !== undefined && { namespace }), ...(uid !== undefined && { uid }) },
  };
}
