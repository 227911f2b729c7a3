import type { Pod, Service, ServicePort } from '../../api/index.ts';
import { type Cidr, errorMessage, type JsonShape, shapedJson } from '../../base/index.ts';

export interface ServiceFacts {
  readonly services: readonly Service[];
  readonly pods: readonly Pod[];
  /** Of services' addresses; undefined: there is no pod network. */
  readonly range: Cidr | undefined;
  /** Another program of the machine listens there, on the loopback address or all of them. */
  readonly isPortTaken: (port: number, protocol: 'tcp' | 'udp') => boolean;
}

/** Why something of a Service is not as it asks, for its event. */
export interface ServiceProblem {
  readonly reason: 'ServiceUnsupported' | 'NoPodNetwork' | 'ClusterIPUnavailable' | 'NodePortUnavailable';
  readonly message: string;
}

/** Undefined: it is none that can be published. */
export function protocolOf({ protocol = 'TCP', port: number }: ServicePort): 'tcp' | 'udp' | undefined {
  if (!isPort(number)) return undefined;
  if (protocol === 'TCP') return 'tcp';
  return protocol === 'UDP' ? 'udp' : undefined;
}

const port: JsonShape = {
  members: { name: 'string', protocol: 'string', port: 'number', targetPort: 'string or number', nodePort: 'number' },
  required: ['port'],
};

const spec: JsonShape = {
  members: {
    type: 'string',
    selector: { map: 'string' },
    ports: { list: port },
    clusterIP: 'string',
    ipFamilies: { list: 'string' },
    sessionAffinity: 'string',
    externalIPs: { list: 'string' },
    publishNotReadyAddresses: 'boolean',
  },
};

/** The Service with what is read of it, or what of it cannot be. What it says becomes rules of the machine's packet filter. */
export function readService(service: Service): Service | ServiceProblem {
  try {
    const read = shapedJson(service.spec ?? {}, spec, 'spec', (path, problem) => new Error(`${path} ${problem}`));
    return { ...service, spec: read as NonNullable<Service['spec']> };
  } catch (error) {
    return { reason: 'ServiceUnsupported', message: `the Service cannot be read: ${errorMessage(error)}` };
  }
}

/** A number that is one of a port. */
export function isPort(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 65_535;
}
