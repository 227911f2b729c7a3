import { rm } from 'node:fs/promises';
import path from 'node:path';
import {
  type Cidr,
  type Clock,
  errorMessage,
  jsonRecord,
  type Logger,
  memberAt,
  sameJson,
  systemClock,
  Turn,
} from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import { Bridge, type NodeNetwork } from './bridge.ts';
import {
  chooseServiceRange,
  chooseSubnets,
  conflicts,
  defaultMtu,
  type PodNetworkWish,
  readSubnets,
  smallestMtu,
  writeSubnets,
} from './choice.ts';
import { addressableName, type DnsProgram, dnsDomain, type Name, PodDns } from './dns.ts';
import { Forwarding } from './forwarding.ts';
import { hostLinkOf, Leases } from './leases.ts';
import { macOf, namesOf } from './names.ts';
import type { PublishedPort } from './service-rules.ts';
import { addressAt, gatewayOffset, type Subnets, textOf } from './subnets.ts';
import { missingTools, NetworkTools } from './tools.ts';

export interface PodNetworkOptions {
  readonly wish: PodNetworkWish;
  readonly stateDir: string;
  /** The node's own; what it gave to pods is kept there. */
  readonly dir: string;
  /** For all users to read, and gone with the boot. */
  readonly sharedDir: string;
}

export interface PodNetworkDeps {
  /** The process with this command line. */
  readonly dns: (argv: readonly [string, ...string[]]) => DnsProgram;
  /** Whether processes of this pod run. */
  readonly isRunning: (uid: string) => Promise<boolean>;
  readonly log: Logger;
  readonly clock?: Clock;
}

/** A pod's own link, as `SandboxNetwork` of the pod runner has it. */
export interface PodLink {
  readonly bridge: string;
  readonly hostLink: string;
  readonly mac: string;
  readonly mtu: number;
  /** With their prefixes. */
  readonly addresses: readonly string[];
  readonly gateways: readonly string[];
  readonly nameservers: readonly string[];
  readonly search: readonly string[];
}

/** What of Services the network has: their ports, and names with the addresses that they have in DNS. */
export interface PublishedServices {
  readonly ports: readonly PublishedPort[];
  readonly names: readonly Name[];
}

interface Up extends NodeNetwork {
  readonly kind: 'up';
  /** Addresses of services; undefined where every range is taken. */
  readonly serviceRange: Cidr | undefined;
  readonly tools: NetworkTools;
  readonly bridge: Bridge;
  readonly dns: PodDns;
}

/**
 * `off`: pods share the machine's network, and their guests have QEMU's own. `failing`: the same, while pods that run have lost what they began with: it is tried
 * again.
 */
type State = { readonly kind: 'off' | 'failing' | 'stopped'; readonly reason: string } | Up;

/** A link of the machine may come while pods run: a laptop moves. */
const lookAgainMs = 20_000;

/** The node's network for pods, where this machine lets it have one. What pods have of it outlives this process. */
export class PodNetwork {
  readonly #options: PodNetworkOptions;
  readonly #deps: Required<PodNetworkDeps>;
  readonly #leases: Leases;
  #state: State = { kind: 'off', reason: 'not started' };
  #cancelLook: () => void = () => undefined;
  /** What is set up or removed, one after the other. */
  readonly #turn = new Turn();
  #conflicts: readonly string[] = [];
  #published: PublishedServices = { ports: [], names: [] };
  /** Of Services, as they were last given to the DNS of the node. */
  #toldNames: PublishedServices['names'] = [];

  constructor(options: PodNetworkOptions, deps: PodNetworkDeps) {
    this.#options = options;
    this.#deps = { clock: systemClock, ...deps };
    this.#leases = new Leases(path.join(options.dir, 'leases'));
  }

  /** For a person: the network, or why there is none and what would help. */
  get summary(): string {
    if (this.#state.kind !== 'up') return `no pod network, guests have user networking: ${this.#state.reason}`;
    const { ipv4, ipv6 } = this.#state.subnets;
    const ranges = [ipv4, ...(ipv6 ? [ipv6] : [])].map(textOf).join(' and ');
    return `pod network ${ranges} at ${namesOf(this.#options.stateDir).bridge}`;
  }

  /** Takes up what an earlier process left. Rejects with NodeError only where a range was asked for by name. */
  start(): Promise<void> {
    return this.#turn.take(async () => {
      const { wish } = this.#options;
      await this.#leases.load();
      try {
        this.#state = await this.#setUp();
        this.#lookAgain();
      } catch (cause) {
        if (wish === 'auto' || wish === 'none') throw cause;
        throw new NodeError('POD_NETWORK', `--pod-network=${wish}: ${errorMessage(cause)}`, { cause });
      }
    });
  }

  /** What keeps guests from reaching out or being reached, in words: rules of others that drop what this node lets pass. */
  async warnings(): Promise<string[]> {
    if (this.#state.kind !== 'up') return [];
    return [...this.#conflicts, ...(await this.#state.bridge.foreignDrops().catch(() => []))];
  }

  /** The link of a new pod; undefined: it has none of its own. Rejects with NodeError POD_NETWORK. */
  join(uid: string, name: string, namespace: string): Promise<PodLink | undefined> {
    return this.#turn.take(() => this.#join(uid, name, namespace));
  }

  async #join(uid: string, name: string, namespace: string): Promise<PodLink | undefined> {
    const state = this.#state;
    if (state.kind === 'stopped') throw new NodeError('POD_NETWORK', 'the node is being stopped: no pod is started');
    if (state.kind !== 'up' || this.#options.wish === 'none') return undefined;
    const { subnets, mtu } = state;
    await this.#ensure(state);
    await this.#leases.take(uid, addressableName(name, namespace) ?? '', subnets);
    await state.dns.update(this.#names(subnets));
    const addresses = this.#leases.addressesOf(uid, subnets);
    const prefixes = [subnets.ipv4, ...(subnets.ipv6 ? [subnets.ipv6] : [])];
    const gateways = prefixes.map((subnet) => addressAt(subnet, gatewayOffset));
    return {
      bridge: state.bridge.name,
      hostLink: hostLinkOf(uid),
      mac: macOf(uid),
      mtu,
      addresses: addresses.map((address, at) => `${address}/${prefixes[at]?.prefix}`),
      gateways,
      nameservers: gateways,
      search: [`${namespace}.${dnsDomain}`, dnsDomain],
    };
  }

  /** Where services have their addresses; undefined: there are none. */
  get serviceRange(): Cidr | undefined {
    return this.#state.kind === 'up' ? this.#state.serviceRange : undefined;
  }

  /** In place of what was published before; nothing happens without a network. */
  publish(services: PublishedServices): Promise<void> {
    return this.#turn.take(async () => {
      const state = this.#state;
      const { serviceRange } = this;
      if (state.kind !== 'up' || !serviceRange) return;
      this.#published = services;
      await state.bridge.publish(state, serviceRange, services.ports);
      if (sameJson(services.names, this.#toldNames)) return;
      await state.dns.update(this.#names(state.subnets));
      this.#toldNames = services.names;
    });
  }

  /** Empty for a pod without an address of its own. */
  addressesOf(uid: string): readonly string[] {
    return this.#state.kind === 'up' ? this.#leases.addressesOf(uid, this.#state.subnets) : [];
  }

  /** Of a pod whose processes have ended; its links went with them. */
  release(uid: string): Promise<void> {
    return this.#turn.take(async () => {
      const wasThere = await this.#leases.release(uid);
      if (wasThere && this.#state.kind === 'up') await this.#state.dns.update(this.#names(this.#state.subnets));
    });
  }

  /** Removes all of it, unless pods run on: then all of it stays for them. */
  stop(): Promise<void> {
    return this.#turn.take(async () => {
      const state = this.#state;
      this.#state = { kind: 'stopped', reason: 'stopped' };
      this.#cancelLook();
      const hasPods = (await this.#living()).length > 0;
      if (state.kind === 'failing' && !hasPods) await this.#removeEarlier();
      if (state.kind !== 'up') return;
      if (hasPods) state.dns.leave();
      else await this.#remove(state);
      state.tools.close();
    });
  }

  /** Pods keep the network they began with, whatever is wished for later ones. Rejects where a range was asked for by name. */
  async #setUp(): Promise<State> {
    const { wish } = this.#options;
    const living = await this.#living();
    for (const uid of this.#leases.uids()) if (!living.includes(uid)) await this.#leases.release(uid);
    const hasPods = living.length > 0;
    if (wish === 'none' && !hasPods) return { kind: 'off', reason: `--pod-network=none${await this.#removeEarlier()}` };
    try {
      return await this.#bringUp(hasPods);
    } catch (cause) {
      const reason = errorMessage(cause);
      this.#deps.log.warn({ err: reason }, 'no pod network');
      if (wish !== 'auto' && wish !== 'none') throw cause;
      if (!hasPods) return { kind: 'off', reason };
      return { kind: 'failing', reason: `${reason} (tried again every ${lookAgainMs / 1000} s for pods that run)` };
    }
  }

  async #living(): Promise<string[]> {
    const uids = this.#leases.uids();
    const states = await Promise.all(uids.map((uid) => this.#deps.isRunning(uid)));
    return uids.filter((_, at) => states[at]);
  }

  async #bringUp(hasPods: boolean): Promise<Up> {
    const tools = await NetworkTools.open();
    const { bridge, forwarding } = this.#parts(tools);
    try {
      const missing = await missingTools();
      if (missing) throw new NodeError('POD_NETWORK', missing);
      const network = await this.#choose(hasPods, forwarding, tools);
      const { subnets } = network;
      await bridge.bringUp({ ...network, ports: this.#ports() });
      const addresses = [subnets.ipv4, ...(subnets.ipv6 ? [subnets.ipv6] : [])].map((each) =>
        addressAt(each, gatewayOffset),
      );
      const dns = new PodDns({ dir: path.join(this.#options.sharedDir, bridge.name), addresses }, this.#deps.dns);
      await dns.start(this.#names(subnets));
      const where = { stateDir: this.#options.stateDir, bridge: bridge.name, subnets };
      const serviceRange = await chooseServiceRange(where, tools);
      return { kind: 'up', ...network, serviceRange, tools, bridge, dns };
    } catch (error) {
      const left = hasPods ? '' : await this.#clear(bridge);
      tools.close();
      if (left === '') throw error;
      throw new NodeError('POD_NETWORK', `${errorMessage(error)}${left}`, { cause: error });
    }
  }

  /** Gives what could not be removed, in words. */
  async #clear(bridge: Bridge): Promise<string> {
    await bridge.remove();
    await this.#forget();
    return bridge.isThere ? `; the bridge of an earlier start is left: ip link delete dev ${bridge.name}` : '';
  }

  #parts(tools: NetworkTools): { readonly bridge: Bridge; readonly forwarding: Forwarding } {
    const forwarding = new Forwarding(this.#options, { tools, log: this.#deps.log });
    return {
      forwarding,
      bridge: new Bridge(namesOf(this.#options.stateDir), { tools, forwarding, log: this.#deps.log }),
    };
  }

  /** Kept before anything has such an address. */
  async #choose(hasPods: boolean, { hasIpv6 }: Forwarding, tools: NetworkTools): Promise<NodeNetwork> {
    const { wish, stateDir } = this.#options;
    // One that is damaged tells nothing: the range is chosen anew.
    const kept = jsonRecord((await readIfThere(this.#file)) ?? '');
    const before = readSubnets(kept);
    const keptMtu = Number(memberAt(kept, 'mtu'));
    if (hasPods && before) return { subnets: before, mtu: keptMtu || defaultMtu };
    const { bridge } = namesOf(stateDir);
    const subnets = await chooseSubnets({ wish, stateDir, before, bridge, hasIpv6 }, tools);
    const mtu = await smallestMtu(tools);
    await this.#keep(subnets, mtu);
    return { subnets, mtu };
  }

  #names(subnets: Subnets): Name[] {
    const pods = [...this.#leases.names()].map(([name, uid]) => ({
      name,
      addresses: this.#leases.addressesOf(uid, subnets),
    }));
    return [...pods, ...this.#published.names];
  }

  #ports(): string[] {
    return this.#leases.uids().map(hostLinkOf);
  }

  async #ensure(state: Up): Promise<void> {
    await state.bridge.ensure({ ...state, ports: this.#ports() }).catch((cause: unknown) => {
      throw new NodeError('POD_NETWORK', `the pod network cannot be set up again: ${errorMessage(cause)}`, { cause });
    });
  }

  #lookAgain(): void {
    if (this.#state.kind !== 'up' && this.#state.kind !== 'failing') return;
    this.#cancelLook = this.#deps.clock.schedule(lookAgainMs, () => {
      void this.#turn
        .take(() => this.#look())
        .catch((error: unknown) =>
          this.#deps.log.warn({ err: errorMessage(error) }, 'the pod network is not as it should be'),
        )
        .then(() => this.#lookAgain());
    });
  }

  async #look(): Promise<void> {
    const state = this.#state;
    if (state.kind === 'failing') this.#state = await this.#setUp();
    if (state.kind !== 'up') return;
    await this.#ensure(state);
    await this.#compare(state);
  }

  /** Pods keep what they began with. Those that start now send no more at once than the machine's links take by now. */
  async #compare(state: Up): Promise<void> {
    const { subnets, tools, bridge } = state;
    const found = await conflicts(subnets, bridge.name, tools);
    for (const text of found.filter((each) => !this.#conflicts.includes(each))) this.#deps.log.warn({}, text);
    this.#conflicts = found;
    const mtu = Math.min(state.mtu, await smallestMtu(tools));
    if (mtu === state.mtu) return;
    this.#deps.log.info({ mtu }, 'pods that start now have a smaller MTU');
    await this.#keep(subnets, mtu);
    this.#state = { ...state, mtu };
  }

  /** Of a node that was killed. Gives what could not be removed, in words. */
  async #removeEarlier(): Promise<string> {
    const tools = await NetworkTools.open();
    const { bridge } = this.#parts(tools);
    const wasUp = (await readIfThere(this.#file)) !== undefined && (await missingTools()) === undefined;
    const left = wasUp || bridge.isThere ? await this.#clear(bridge) : '';
    tools.close();
    return left;
  }

  async #remove({ dns, bridge }: Up): Promise<void> {
    await dns.stop();
    await this.#clear(bridge);
  }

  get #file(): string {
    return path.join(this.#options.dir, 'network.json');
  }

  async #keep(subnets: Subnets, mtu: number): Promise<void> {
    await writeFileAtomic(this.#file, writeSubnets(subnets, mtu));
  }

  async #forget(): Promise<void> {
    const { dir, sharedDir, stateDir } = this.#options;
    await rm(path.join(sharedDir, namesOf(stateDir).bridge), { recursive: true, force: true });
    await rm(path.join(dir, 'leases'), { recursive: true, force: true });
  }
}
