import { isBeingDeleted, type Service, type ServicePort } from '../../api/index.ts';
import { addressableName, type Name, type PublishedPort, type PublishedServices } from '../pod-network/index.ts';
import { ServiceAddresses } from './addresses.ts';
import { type EndpointsOfService, endpointsOf } from './endpoints.ts';
import { protocolOf, readService, type ServiceFacts, type ServiceProblem } from './facts.ts';
import { launcherTargets } from './members.ts';
import type { NodePortRelay } from './node-port-relays.ts';

export interface PlannedService {
  readonly service: Service;
  /** What is written into its spec; undefined: nothing. */
  readonly change: object | undefined;
  /** Undefined: it has none, and those of before go. */
  readonly endpoints: EndpointsOfService | undefined;
  readonly problems: readonly ServiceProblem[];
}

export interface ServicePlan extends PublishedServices {
  /** Node ports that this program carries itself, where there is no pod network. */
  readonly relays: readonly NodePortRelay[];
  readonly services: readonly PlannedService[];
}

interface Planned extends PlannedService {
  readonly ports: readonly PublishedPort[];
  readonly relays: readonly NodePortRelay[];
  readonly name: Name | undefined;
}

/** What is to become of all Services, the older ones first: of two that want one address it is theirs. */
export function planServices(facts: ServiceFacts): ServicePlan {
  const all = facts.services.filter((service) => !isBeingDeleted(service)).sort(byAge);
  const read = all.map((service) => ({ service, found: readService(service) }));
  const services = read.flatMap(({ found }) => ('metadata' in found ? [found] : []));
  const addresses = new ServiceAddresses(services, facts);
  const planned = read.map(({ service, found }): Planned => {
    if ('metadata' in found) return planOne(found, facts, addresses);
    return { ...nothingOf(service), problems: [found] };
  });
  return {
    services: planned.map(({ service, change, endpoints, problems }) => ({ service, change, endpoints, problems })),
    ports: planned.flatMap(({ ports }) => ports),
    relays: planned.flatMap(({ relays }) => relays),
    names: planned.flatMap(({ name }) => name ?? []),
  };
}

function nothingOf(service: Service): Omit<Planned, 'problems'> {
  return { service, change: undefined, endpoints: undefined, ports: [], relays: [], name: undefined };
}

function byAge({ metadata: one }: Service, { metadata: other }: Service): number {
  const [a, b] = [one, other].map((each) => `${each.creationTimestamp} ${each.namespace}/${each.name}`);
  return (a ?? '') < (b ?? '') ? -1 : 1;
}

function planOne(service: Service, facts: ServiceFacts, addresses: ServiceAddresses): Planned {
  const nothing = nothingOf(service);
  const refusal = refusalOf(service);
  if (refusal) return { ...nothing, problems: [refusal] };
  if (!facts.range) return planWithoutNetwork(service, facts, addresses);
  const endpoints = endpointsOf(service, facts.pods);
  const problems = limitsOf(service);
  const nameOf = (ips: readonly string[]): Name | undefined => {
    const name = addressableName(service.metadata.name, `${service.metadata.namespace ?? ''}.svc`);
    return name === undefined || ips.length === 0 ? undefined : { name, addresses: ips };
  };
  if (service.spec?.clusterIP === 'None') {
    const ips = (endpoints.object.subsets ?? []).flatMap(({ addresses: ready = [] }) => ready.map(({ ip }) => ip));
    return { ...nothing, endpoints, name: nameOf([...new Set(ips)]), problems };
  }
  const clusterIp = addresses.clusterIpOf(service);
  if (clusterIp === undefined) {
    const message = 'all addresses of services are taken: delete a Service';
    return { ...nothing, endpoints, problems: [...problems, { reason: 'ClusterIPUnavailable', message }] };
  }
  const ports = (service.spec?.ports ?? []).map((port) => addresses.nodePortOf(service, port));
  const change = changeOf(service, clusterIp, ports);
  const published = ports.flatMap(({ port, nodePort, problem }) => {
    const protocol = protocolOf(port);
    if (protocol === undefined) return [];
    const shown = problem ? undefined : nodePort;
    return [{ address: clusterIp, protocol, port: port.port, nodePort: shown, endpoints: endpoints.of(port) }];
  });
  const nodePortProblems = ports.flatMap(({ problem }) => problem ?? []);
  return {
    ...nothing,
    change,
    endpoints,
    ports: published,
    name: nameOf([clusterIp]),
    problems: [...problems, ...nodePortProblems],
  };
}

/** As far as nothing is published of it. */
function refusalOf({ spec = {} }: Service): ServiceProblem | undefined {
  const unsupported = (message: string) => ({ reason: 'ServiceUnsupported', message }) as const;
  if (spec.type === 'ExternalName') {
    return unsupported('the standalone node has no names for other machines (ExternalName): use their own names');
  }
  if (Object.keys(spec.selector ?? {}).length === 0) {
    return unsupported(
      'a Service without selector has no endpoints here: give it the labels of the VMs that it leads to',
    );
  }
  const [family] = spec.ipFamilies ?? [];
  if (family === 'IPv6') {
    return unsupported('Services have IPv4 addresses only here: leave ipFamilies out');
  }
  return undefined;
}

/** Guests have QEMU's user networking then: no address, no name and no UDP, but node ports that this program carries. */
function planWithoutNetwork(service: Service, facts: ServiceFacts, addresses: ServiceAddresses): Planned {
  const { type, ports: all = [] } = service.spec ?? {};
  const hasNodePorts = type === 'NodePort' || type === 'LoadBalancer';
  const ports = hasNodePorts ? all.map((port) => addresses.nodePortOf(service, port)) : [];
  const relays = ports.flatMap(({ port, nodePort, problem }) => {
    if (problem || nodePort === undefined || protocolOf(port) !== 'tcp') return [];
    return [{ port: nodePort, targets: launcherTargets(service, port, facts.pods) }];
  });
  const why = 'the first lines of the node say why there is none, and what to install';
  const there = hasNodePorts
    ? 'only its node ports of TCP answer, at 127.0.0.1 and for guests at 10.0.2.2'
    : 'nothing of it is published; with type NodePort its ports of TCP are, at 127.0.0.1';
  const message = `without a pod network ${there}: ${why}`;
  return {
    ...nothingOf(service),
    change: hasNodePorts ? nodePortChange(ports) : undefined,
    relays,
    problems: [
      { reason: 'NoPodNetwork', message },
      ...limitsOf(service),
      ...ports.flatMap(({ problem }) => problem ?? []),
    ],
  };
}

/** What of it does not hold, while the rest is published. */
function limitsOf({ spec = {} }: Service): ServiceProblem[] {
  const { type, sessionAffinity = 'None', externalIPs = [], ports = [] } = spec;
  const limits = [
    type === 'LoadBalancer' &&
      'the standalone node has no load balancer: the Service gets no external address, its node ports answer on this machine',
    sessionAffinity !== 'None' &&
      `sessionAffinity ${sessionAffinity} does not hold here: each connection goes to any of the VMs`,
    externalIPs.length > 0 && 'externalIPs do not hold here: nothing is published on other addresses of the machine',
    ...ports.map(
      (port) =>
        protocolOf(port) === undefined &&
        `port ${port.port} of ${port.protocol ?? 'TCP'} is not published: TCP and UDP are, from 1 to 65535`,
    ),
  ];
  return limits.flatMap((message) => (message === false ? [] : [{ reason: 'ServiceUnsupported', message } as const]));
}

function changeOf({ spec = {} }: Service, clusterIp: string, ports: ChosenPorts): object | undefined {
  const nodePorts = nodePortChange(ports);
  if (spec.clusterIP === clusterIp && !nodePorts) return undefined;
  return {
    clusterIP: clusterIp,
    clusterIPs: [clusterIp],
    ipFamilies: ['IPv4'],
    ipFamilyPolicy: 'SingleStack',
    ...withNodePorts(ports),
  };
}

type ChosenPorts = readonly { readonly port: ServicePort; readonly nodePort: number | undefined }[];

/** Undefined: the Service has them all. */
function nodePortChange(ports: ChosenPorts): object | undefined {
  return ports.every(({ port, nodePort }) => port.nodePort === nodePort) ? undefined : withNodePorts(ports);
}

function withNodePorts(ports: ChosenPorts): object {
  return {
    ports: ports.map(({ port: { nodePort: _before, ...port }, nodePort }) => ({
      ...port,
      ...(nodePort !== undefined && { nodePort }),
    })),
  };
}
