import { createHash } from 'node:crypto';
import type { VirtualMachineInstance } from '../../api/index.ts';
import type { Forward } from './forwards.ts';

/** Ports of the VMI's interfaces as they are published on the machine, and why others are not, in words. */
export interface PublishedPorts {
  readonly forwards: readonly Forward[];
  readonly problems: readonly string[];
}

/** Programs of the machine have their ports below, and keep them, also those that start later: a server that listens at all addresses fails where one has its port. */
const firstPort = 10_000;
const shift = 20_000;
const lastPort = 65_535;

/** What `interfaces[].ports` asks for. The same VMI has the same address and ports each time. */
export function publishedPorts(vmi: VirtualMachineInstance): PublishedPorts {
  const address = addressOf(vmi.metadata.uid ?? '');
  const forwards: Forward[] = [];
  const problems: string[] = [];
  for (const { name, ports = [], state } of vmi.spec.domain.devices?.interfaces ?? []) {
    if (state === 'absent') continue;
    for (const { protocol = 'TCP', port } of ports) {
      const known = protocolOf(protocol);
      if (!known || !isPort(port)) {
        problems.push(`port ${port} ${protocol} of interface ${name}: TCP and UDP from 1 to ${lastPort} are published`);
      } else if (!forwards.some((each) => each.protocol === known && each.guestPort === port)) {
        forwards.push({ protocol: known, address, port: freePort(port, known, forwards), guestPort: port });
      }
    }
  }
  return { forwards, problems };
}

/** As the machine's programs and people write it. */
export function shownForward({ protocol, address, port, guestPort }: Forward): string {
  return `${protocol} ${guestPort} at ${address}:${port}`;
}

function protocolOf(protocol: string): Forward['protocol'] | undefined {
  if (protocol === 'TCP' || protocol === '') return 'tcp';
  return protocol === 'UDP' ? 'udp' : undefined;
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= lastPort;
}

/** The guest's own number, or one that is made of it; of two that make the same the second one has the next. */
function freePort(guestPort: number, protocol: Forward['protocol'], given: readonly Forward[]): number {
  const first = guestPort < firstPort ? shift + guestPort : guestPort;
  const count = lastPort - firstPort + 1;
  const all = Array.from({ length: given.length + 1 }, (_, at) => firstPort + ((first - firstPort + at) % count));
  return all.find((port) => !given.some((each) => each.protocol === protocol && each.port === port)) ?? first;
}

/** A loopback address of its own, so that VMs do not take each other's ports: 127.64.0.1 to 127.127.255.254. */
export function addressOf(uid: string): string {
  const [a = 0, b = 0, c = 0] = createHash('sha256').update(uid).digest();
  return `127.${64 + (a % 64)}.${b}.${1 + (c % 254)}`;
}
