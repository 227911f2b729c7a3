import type { Service, ServicePort } from '../../api/index.ts';
import type { Cidr } from '../../base/index.ts';
import { addressAt, seedOf } from '../pod-network/index.ts';
import { protocolOf, type ServiceFacts, type ServiceProblem } from './facts.ts';

/** As in Kubernetes. */
const nodePortRange = { first: 30_000, last: 32_767 } as const;

export interface NodePortChoice {
  readonly port: ServicePort;
  /** Undefined: the Service has none. */
  readonly nodePort: number | undefined;
  readonly problem?: ServiceProblem;
}

/** Who has which address and which port of the machine. What a Service has already stays, unless an older one has it. */
export class ServiceAddresses {
  readonly #range: Cidr | undefined;
  readonly #isPortTaken: ServiceFacts['isPortTaken'];
  readonly #clusterIps = new Map<string, Service>();
  readonly #nodePorts = new Map<string, Service>();

  /** The older Services first. */
  constructor(services: readonly Service[], { range, isPortTaken }: ServiceFacts) {
    this.#range = range;
    this.#isPortTaken = isPortTaken;
    const all = range ? new Set(offsets(range).map((offset) => addressAt(range, offset))) : new Set();
    for (const service of services) {
      const { clusterIP = '' } = service.spec ?? {};
      if (all.has(clusterIP) && !this.#clusterIps.has(clusterIP)) this.#clusterIps.set(clusterIP, service);
      for (const port of service.spec?.ports ?? []) {
        const key = keyOf(port, port.nodePort ?? 0);
        if (isNodePort(port.nodePort) && !this.#nodePorts.has(key)) this.#nodePorts.set(key, service);
      }
    }
  }

  /** Undefined: there is none left. */
  clusterIpOf(service: Service): string | undefined {
    const { clusterIP = '' } = service.spec ?? {};
    if (this.#clusterIps.get(clusterIP) === service) return clusterIP;
    const range = this.#range;
    if (!range) return undefined;
    const free = turned(offsets(range), service).find((offset) => !this.#clusterIps.has(addressAt(range, offset)));
    if (free === undefined) return undefined;
    const address = addressAt(range, free);
    this.#clusterIps.set(address, service);
    return address;
  }

  nodePortOf(service: Service, port: ServicePort): NodePortChoice {
    const { type } = service.spec ?? {};
    const protocol = protocolOf(port);
    if ((type !== 'NodePort' && type !== 'LoadBalancer') || protocol === undefined)
      return { port, nodePort: undefined };
    const asked = port.nodePort;
    if (asked === undefined) return this.#choose(service, port, protocol);
    const problem = this.#problemOf(service, port, asked, protocol);
    return { port, nodePort: asked, ...(problem && { problem }) };
  }

  #problemOf(service: Service, port: ServicePort, asked: number, protocol: 'tcp' | 'udp'): ServiceProblem | undefined {
    const problem = (why: string) =>
      ({ reason: 'NodePortUnavailable', message: `node port ${asked}: ${why}` }) as const;
    const { first, last } = nodePortRange;
    if (!isNodePort(asked)) return problem(`node ports are from ${first} to ${last}`);
    const owner = this.#nodePorts.get(keyOf(port, asked));
    if (owner && owner !== service) {
      return problem(
        `Service ${owner.metadata.namespace}/${owner.metadata.name} has it: leave nodePort out, or choose another one`,
      );
    }
    if (!this.#isPortTaken(asked, protocol)) return undefined;
    return problem(`a program of this machine listens there (ss -lnp sport = ${asked}): end it, or choose another one`);
  }

  #choose(service: Service, port: ServicePort, protocol: 'tcp' | 'udp'): NodePortChoice {
    const { first, last } = nodePortRange;
    const all = Array.from({ length: last - first + 1 }, (_, at) => first + at);
    const isFree = (each: number) => !this.#nodePorts.has(keyOf(port, each)) && !this.#isPortTaken(each, protocol);
    const nodePort = turned(all, service).find(isFree);
    if (nodePort !== undefined) {
      this.#nodePorts.set(keyOf(port, nodePort), service);
      return { port, nodePort };
    }
    return { port, nodePort, problem: { reason: 'NodePortUnavailable', message: 'every node port is taken' } };
  }
}

function isNodePort(port: number | undefined): boolean {
  return port !== undefined && Number.isInteger(port) && port >= nodePortRange.first && port <= nodePortRange.last;
}

function keyOf(port: ServicePort, nodePort: number): string {
  return `${protocolOf(port)} ${nodePort}`;
}

/** Not the range's own address and the last one. */
function offsets({ prefix }: Cidr): number[] {
  return Array.from({ length: 2 ** (32 - prefix) - 2 }, (_, at) => at + 1);
}

/** The same begin each time for the same Service, so that an address that came free is seldom another one's at once. */
function turned(all: readonly number[], { metadata }: Service): number[] {
  const start = seedOf(metadata.uid ?? '').readUInt32BE(0) % all.length;
  return [...all.slice(start), ...all.slice(0, start)];
}
