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
import { podReachOf } from '../../apiserver/index.ts';
import { listOf, memberAt } from '../../base/index.ts';
import type { GuestTarget } from '../guest-dial.ts';
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
  return selected(service, pods).flatMap((pod) => {
    const reach = podReachOf(pod);
    if (reach?.kind !== 'address' || !isIPv4(reach.address)) return [];
    return [{ pod, address: reach.address, isReady: isReady(service, pod), isServing: isServing(pod) }];
  });
}

/** The ports of guests that a port of a Service leads to where pods have no addresses: by their launchers. Of those that are ready. */
export function launcherTargets(service: Service, port: ServicePort, pods: readonly Pod[]): GuestTarget[] {
  return selected(service, pods).flatMap((pod) => {
    const reach = podReachOf(pod);
    const target = targetOf(port, pod);
    const isThere = reach?.kind === 'launcher' && target !== undefined && isReady(service, pod);
    return isThere ? [{ reach, port: target }] : [];
  });
}

function selected({ metadata, spec }: Service, pods: readonly Pod[]): Pod[] {
  return pods
    .filter(
      (pod) =>
        pod.metadata.namespace === metadata.namespace &&
        selects({ matchLabels: spec?.selector ?? {} }, pod.metadata.labels ?? {}) &&
        pod.status?.phase === 'Running' &&
        !isBeingDeleted(pod),
    )
    .sort((one, other) => (one.metadata.name < other.metadata.name ? -1 : 1));
}

function isReady({ spec }: Service, pod: Pod): boolean {
  return spec?.publishNotReadyAddresses === true || isServing(pod);
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
