import { rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import type { Interface, Network, VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger } from '../../base/index.ts';
import {
  type DeviceAddress,
  type NetworkLink,
  openDeviceSocket,
  readDeviceAddresses,
  readNetworkLinks,
  replaceFileSync,
} from '../../host/index.ts';
import { type LauncherPaths, networkDevices } from '../domain/index.ts';
import { answer4 } from './dhcp4/answer.ts';
import { answer6 } from './dhcp6/answer.ts';
import { NetworkError } from './errors.ts';
import { bridgeLeases, type GuestFacts, type LeaseInput, type Leases, masqueradeLeases } from './leases.ts';
import { parseResolvConf } from './resolv-conf.ts';
import { DhcpServer, type OpenSocket } from './server.ts';
import { readVifCache } from './vif-cache.ts';

/** What the pod is asked for. */
export interface PodFacts {
  readonly links: () => Promise<ReadonlyMap<string, NetworkLink>>;
  readonly addresses: () => Promise<readonly DeviceAddress[]>;
  /** Text of resolv.conf(5). */
  readonly resolvConf: () => Promise<string>;
  readonly hostName: () => string;
}

export interface PodNetworkDeps {
  readonly facts: PodFacts;
  readonly open: OpenSocket;
  readonly log: Logger;
  readonly clock: Clock;
}

const dhcp4Port = 67;
const dhcp6Port = 547;
/** All DHCP servers and relays on the link. */
const dhcp6Group = 'ff02::1:2';

interface Served {
  readonly bridgeIndex: number | undefined;
  readonly servers: readonly DhcpServer[];
}

type Links = ReadonlyMap<string, NetworkLink>;

/**
 * Phase 2 of the VMI's networks (upstream's `pkg/network/setup/launcher`): checks that the agent has set them up in the pod, and gives the
 * guest its addresses. One server per bridge and family, as long as the interface is there.
 */
export class PodNetwork {
  readonly #privateDir: string;
  readonly #deps: PodNetworkDeps;
  /** By the pod's device. */
  readonly #served = new Map<string, Served>();

  constructor(options: { readonly privateDir: string }, deps: PodNetworkDeps) {
    this.#privateDir = options.privateDir;
    this.#deps = deps;
  }

  links(): Promise<Links> {
    return this.#deps.facts.links();
  }

  /** Before the domain is defined: all networks of the VMI. Gives the pod's devices. Rejects with `NetworkError`. */
  async prepare(vmi: VirtualMachineInstance): Promise<Links> {
    const links = await this.links();
    await this.setUp(vmi, links);
    return links;
  }

  /**
   * Everything that these interfaces need besides the domain; all of the VMI that are not absent when none are named. What is served
   * already stays as it is. Rejects with `NetworkError`.
   */
  async setUp(vmi: VirtualMachineInstance, links: Links, names?: readonly string[]): Promise<void> {
    const all = (vmi.spec.domain.devices?.interfaces ?? []).filter(({ state }) => state !== 'absent');
    const inputs = all
      .filter(({ name }) => names === undefined || names.includes(name))
      .flatMap((iface) => inputsOf(iface, vmi, links))
      .filter((input) => !this.#isServed(input));
    if (inputs.length === 0) return;
    for (const input of inputs) requireHandover(input);
    const facts = await this.#guestFacts(vmi);
    const leases = await Promise.all(inputs.map(async (input) => ({ input, given: await this.#leases(input, facts) })));
    for (const { input, given } of leases) await this.#serve(input, given);
  }

  /** Ends the servers of interfaces that are gone. */
  keepOnly(vmi: VirtualMachineInstance, links: Links, names: readonly string[]): void {
    const ifaces = (vmi.spec.domain.devices?.interfaces ?? []).filter(({ name }) => names.includes(name));
    const kept = new Set(ifaces.flatMap((iface) => inputsOf(iface, vmi, links)).map(({ devices }) => devices.pod));
    for (const pod of this.#served.keys()) if (!kept.has(pod)) this.#end(pod);
  }

  stop(): void {
    for (const pod of [...this.#served.keys()]) this.#end(pod);
  }

  /** A bridge that was made anew has sockets of its own, whatever its name is. */
  #isServed({ devices, links }: LeaseInput): boolean {
    const served = this.#served.get(devices.pod);
    if (served && served.bridgeIndex === links.get(devices.bridge)?.index) return true;
    if (served) this.#end(devices.pod);
    return false;
  }

  #end(pod: string): void {
    for (const server of this.#served.get(pod)?.servers ?? []) server.stop();
    this.#served.delete(pod);
    rmSync(this.#marker(pod), { force: true });
    this.#deps.log.info({ device: pod }, 'DHCP servers of an interface stopped');
  }

  async #guestFacts(vmi: VirtualMachineInstance): Promise<GuestFacts> {
    const { facts } = this.#deps;
    return { vmi, resolvConf: parseResolvConf(await facts.resolvConf()), hostName: facts.hostName() };
  }

  async #leases(input: LeaseInput, facts: GuestFacts): Promise<Leases> {
    if (input.iface.bridge) {
      return bridgeLeases(input, facts, await readVifCache(this.#privateDir, input.devices.pod));
    }
    const leases = masqueradeLeases(input, facts, await this.#deps.facts.addresses());
    if (leases.v4 || leases.v6) return leases;
    throw new NetworkError(
      'NO_HANDOVER',
      `network ${input.network.name}: the pod's network device ${input.devices.pod} has no address, so masquerade has nothing to hide the guest behind: look at the pod's network plugin`,
    );
  }

  async #serve({ devices, links }: LeaseInput, { v4, v6, leftOut }: Leases): Promise<void> {
    const { log } = this.#deps;
    if (leftOut.length > 0) log.warn({ count: leftOut.length }, 'search domains that no guest could use are left out');
    const servers = [
      ...(v4
        ? [this.#server({ family: 'udp4', port: dhcp4Port, device: devices.bridge }, (...it) => answer4(...it, v4))]
        : []),
      ...(v6
        ? [
            this.#server({ family: 'udp6', port: dhcp6Port, device: devices.bridge, group: dhcp6Group }, (...it) =>
              answer6(...it, v6),
            ),
          ]
        : []),
    ];
    await startAll(servers);
    this.#served.set(devices.pod, { bridgeIndex: links.get(devices.bridge)?.index, servers });
    if (servers.length > 0) this.#mark(devices.pod);
    log.info({ device: devices.bridge, address: v4?.address, address6: v6?.address }, 'network of the guest is served');
  }

  #server(...[listen, answer]: ServerArgs): DhcpServer {
    return new DhcpServer({ listen, answer }, this.#deps);
  }

  /** Upstream's launcher takes it for a server that runs; here it is only left for those who look. */
  #mark(pod: string): void {
    try {
      replaceFileSync(this.#marker(pod), '', 0o644);
    } catch (error) {
      this.#deps.log.warn({ err: errorMessage(error) }, 'the mark of the DHCP server cannot be written');
    }
  }

  #marker(pod: string): string {
    return path.join(this.#privateDir, `dhcp_started-${pod}`);
  }
}

/** Of the pod that this process is in. */
export function podNetwork(
  paths: Pick<LauncherPaths, 'privateDir'>,
  deps: { readonly log: Logger; readonly clock: Clock },
): PodNetwork {
  const facts: PodFacts = {
    links: () => readNetworkLinks(),
    addresses: readDeviceAddresses,
    resolvConf: () => readFile('/etc/resolv.conf', 'utf8'),
    hostName: hostname,
  };
  return new PodNetwork(paths, { ...deps, facts, open: openDeviceSocket });
}

type ServerOptionsOf = ConstructorParameters<typeof DhcpServer>[0];
type ServerArgs = [ServerOptionsOf['listen'], ServerOptionsOf['answer']];

/** All or none. */
async function startAll(servers: readonly DhcpServer[]): Promise<void> {
  try {
    for (const server of servers) await server.start();
  } catch (error) {
    for (const server of servers) server.stop();
    throw error;
  }
}

/** Only the core bindings with a bridge are served here: a plug-in serves its guest itself. */
function inputsOf(iface: Interface, vmi: VirtualMachineInstance, links: Links): LeaseInput[] {
  const network = vmi.spec.networks?.find(({ name }) => name === iface.name);
  if (!network || !hasBridge(iface)) return [];
  return [{ iface, network, links, devices: networkDevices(network, vmi, links) }];
}

/** Masquerade is what an interface without a binding is. */
function hasBridge({ bridge, masquerade, sriov, passtBinding, binding }: Interface): boolean {
  return Boolean(bridge ?? masquerade) || !(sriov ?? passtBinding ?? binding);
}

function requireHandover({ network, devices, links }: { readonly network: Network } & LeaseInput): void {
  const missing = [devices.pod, devices.bridge, devices.tap].filter((name) => !links.has(name));
  if (missing.length === 0) return;
  const there = [...links.keys()].join(', ') || 'none';
  throw new NetworkError(
    'NO_HANDOVER',
    `network ${network.name}: the pod lacks ${missing.join(', ')} (there are: ${there}), which the pod's network plugin and the node agent ` +
      'make before the start: look into the log of the agent; without an agent set VIRT_LAUNCHER_NETWORK=user',
  );
}
