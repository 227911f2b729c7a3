import { isIPv4 } from 'node:net';
import {
  type EndpointAddress,
  findCondition,
  isBeingDeleted,
  type Pod,
  type Service,
  type ServicePort,
  selects,
} from '../../api/index.ts';
import { listOf, memberAt } from '../../base/index.ts';
import { isPort } from './facts.ts';

/** A pod behind a Service. */
export interface Member {
  readonly pod: Pod;
  readonly address: string;
  /** Its own word, or the Service wants it anyhow. */
  readonly isReady: boolean;
  readonly isServing: boolean;
}

/** Pods with their own addresses that a Service selects, by name. */
export function membersOf(service: Service, pods: readonly Pod[]): Member[] {
  return pods
    .filter((pod) => isOfService(service, pod))
    .map((pod) => ({
      pod,
      address: pod.status?.podIP ?? '',
      isReady: service.spec?.publishNotReadyAddresses === true || isServing(pod),
      isServing: isServing(pod),
    }))
    .sort((one, other) => (one.pod.metadata.name < other.pod.metadata.name ? -1 : 1));
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

function isServing({ status }: Pod): boolean {
  return findCondition(status?.conditions, 'Ready')?.status === 'True';
}

/** A number, or the name that a port of the pod has. */
export function targetOf({ port, targetPort = port }: ServicePort, { spec }: Pod): number | undefined {
  if (typeof targetPort === 'number') return isPort(targetPort) ? targetPort : undefined;
  const ports = spec.containers.flatMap((container) => listOf(memberAt(container, 'ports')));
  const found = memberAt(
    ports.find((each) => memberAt(each, 'name') === targetPort),
    'containerPort',
  );
  return isPort(found) ? found : undefined;
}

/** Pods for which the Service's ports are the same numbers. */
export interface EndpointGroup {
  readonly ports: readonly { readonly name?: string; readonly port: number; readonly protocol: string }[];
  readonly members: readonly Member[];
}

/** A group for each way in which names of ports are numbers. */
export function groupsOf({ spec }: Service, members: readonly Member[]): EndpointGroup[] {
  const groups = new Map<string, { ports: EndpointGroup['ports']; members: Member[] }>();
  for (const member of members) {
    const ports = (spec?.ports ?? []).flatMap((port) => {
      const target = targetOf(port, member.pod);
      if (target === undefined) return [];
      return [{ ...(port.name !== undefined && { name: port.name }), port: target, protocol: port.protocol ?? 'TCP' }];
    });
    const key = JSON.stringify(ports);
    const group = groups.get(key) ?? { ports, members: [] };
    group.members.push(member);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Which pod it is, and on which node. */
export function whereabouts({ metadata, spec }: Pod): Omit<EndpointAddress, 'ip'> {
  const { name, namespace, uid } = metadata;
  return {
    ...(spec.nodeName !== undefined && { nodeName: spec.nodeName }),
    targetRef: { kind: 'Pod', name, ...(namespace !== undefined && { namespace }), ...(uid !== undefined && { uid }) },
  };
}
