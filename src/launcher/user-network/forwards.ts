import type { DomainRef } from '../../libvirt/index.ts';
import { LauncherError } from '../errors.ts';
import type { Hypervisor } from '../ports.ts';

/** A port of the machine that QEMU's user network leads to the guest. */
export interface Forward {
  readonly protocol: 'tcp' | 'udp';
  /** IPv4: QEMU forwards no other. */
  readonly address: string;
  readonly port: number;
  readonly guestPort: number;
}

/** One line of QEMU's table: a port that is forwarded, or a connection by one. */
export interface ForwardRow extends Forward {
  /** `HOST_FORWARD`, or the state of a connection: `SYN_SENT` until the guest has answered. */
  readonly state: string;
}

/** QEMU's user network of a guest: its name for the monitor, and its table. */
export interface UserNetworkState {
  readonly netdev: string;
  readonly rows: readonly ForwardRow[];
}

/**
 * What QEMU's monitor is asked about forwarded ports (net/slirp.c of QEMU): libvirt 9 and 11 have no call and no element for them with this kind of network, and what a command
 * line adds cannot be changed later.
 */
export class Forwards {
  readonly #hypervisor: Pick<Hypervisor, 'monitor'>;

  constructor(hypervisor: Pick<Hypervisor, 'monitor'>) {
    this.#hypervisor = hypervisor;
  }

  /** Throws NOT_SUPPORTED when the guest has no such network. */
  async read(domain: DomainRef): Promise<UserNetworkState> {
    const state = parseUserNetwork(await this.#hypervisor.monitor(domain, 'info usernet'));
    if (state) return state;
    throw new LauncherError('NOT_SUPPORTED', 'the guest has no network: its VM has no interface');
  }

  /** False: another socket of the machine has the port, at this address or at all of them. */
  async add(domain: DomainRef, netdev: string, { protocol, address, port, guestPort }: Forward): Promise<boolean> {
    const rule = `${protocol}:${address}:${port}-:${guestPort}`;
    const said = await this.#hypervisor.monitor(domain, `hostfwd_add ${netdev} ${rule}`);
    return said.trim() === '';
  }

  /** Connections by it go on. */
  async remove(domain: DomainRef, netdev: string, { protocol, address, port }: Forward): Promise<void> {
    await this.#hypervisor.monitor(domain, `hostfwd_remove ${netdev} ${protocol}:${address}:${port}`);
  }
}

/** Reads the answer to `info usernet`. Undefined: no such network. */
export function parseUserNetwork(text: string): UserNetworkState | undefined {
  const lines = text.split('\n').map((line) => line.trim());
  const [, netdev] = /^Hub -?\d+ \(([^()\s]+)\):/.exec(lines.find((line) => line.startsWith('Hub ')) ?? '') ?? [];
  if (netdev === undefined) return undefined;
  return { netdev, rows: lines.flatMap((line) => rowOf(line) ?? []) };
}

/** `TCP[HOST_FORWARD]  11  127.75.3.4 20022  10.0.2.15  22  0  0` */
function rowOf(line: string): ForwardRow | undefined {
  const [name = '', , address, portText, , guestPortText] = line.split(/\s+/);
  const [, protocol, state] = /^(TCP|UDP)\[(\w+)\]$/.exec(name) ?? [];
  if (protocol === undefined || state === undefined || address === undefined) return undefined;
  const [port, guestPort] = [Number(portText), Number(guestPortText)];
  return { protocol: protocol === 'TCP' ? 'tcp' : 'udp', state, address, port, guestPort };
}

export const forwardState = 'HOST_FORWARD';

export function isSameForward(one: Forward, other: Forward): boolean {
  const { protocol, address, port, guestPort } = one;
  return (
    other.protocol === protocol && other.address === address && other.port === port && other.guestPort === guestPort
  );
}
