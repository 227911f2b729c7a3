import { type Cidr, errorMessage, type Logger, listOf, memberAt } from '../../base/index.ts';
import { foreignDrops } from './foreign-drops.ts';
import type { Forwarding } from './forwarding.ts';
import { macOf, type NetworkNames } from './names.ts';
import { filterRules, withoutRules } from './rules.ts';
import { type PublishedPort, serviceRules } from './service-rules.ts';
import { addressAt, gatewayOffset, type Subnets, textOf } from './subnets.ts';
import type { NetworkTools } from './tools.ts';

export interface NodeNetwork {
  readonly subnets: Subnets;
  readonly mtu: number;
}

/** With the links that pods have on the machine, also those that are gone. */
interface PluggedNetwork extends NodeNetwork {
  readonly ports: readonly string[];
}

interface BridgeDeps {
  readonly tools: NetworkTools;
  readonly forwarding: Forwarding;
  readonly log: Logger;
}

/** The bridge that pods are plugged into, with the rules around it. All of it can be done again. */
export class Bridge {
  readonly #names: NetworkNames;
  readonly #deps: BridgeDeps;
  /** As they were set last. */
  #rules = '';
  /** Empty: no service was ever published. */
  #serviceRules = '';

  constructor(names: NetworkNames, deps: BridgeDeps) {
    this.#names = names;
    this.#deps = deps;
  }

  get name(): string {
    return this.#names.bridge;
  }

  /** One of a node that was killed is taken over with the pods in it, or made anew: it may have other addresses. */
  async bringUp(network: PluggedNetwork): Promise<void> {
    const { tools } = this.#deps;
    if (network.ports.length === 0 && this.isThere) await tools.ip([`link delete dev ${this.name}`]);
    // Routes and settings of services went with the link: they are published anew.
    if (!this.isThere) this.#serviceRules = '';
    await tools.ip([...(this.isThere ? [] : [this.#made()]), ...this.#commands(network)]);
    for (const [setting, value] of this.#settings(network)) tools.set(setting, value);
    await this.#openUp(network);
  }

  /** Others may have taken something away: a firewall that is loaded anew removes the tables of everybody. */
  async ensure(network: PluggedNetwork): Promise<void> {
    if (!this.isThere) await this.bringUp(network);
    else if (this.#deps.forwarding.links().isNew || !(await this.#hasRules(network))) await this.#openUp(network);
  }

  get isThere(): boolean {
    return this.#deps.tools.links().includes(this.name);
  }

  async #hasRules({ subnets }: NodeNetwork): Promise<boolean> {
    if (filterRules(this.#names, subnets, this.#deps.forwarding.links()) !== this.#rules) return false;
    const { table, serviceTable } = this.#names;
    const tables = listOf(memberAt(await this.#deps.tools.nftJson(['list', 'tables', 'inet']), 'nftables'));
    const hasTable = (name: string) => tables.some((item) => memberAt(item, 'table', 'name') === name);
    return hasTable(table) && (this.#serviceRules === '' || hasTable(serviceTable));
  }

  /** In place of those of before. `range` has the addresses of services. */
  async publish({ subnets }: NodeNetwork, range: Cidr, ports: readonly PublishedPort[]): Promise<void> {
    const { tools } = this.#deps;
    const rules = serviceRules(this.#names, { range, subnets }, ports);
    if (rules === this.#serviceRules) return;
    // The machine's own way there: it may have no other that fits.
    await tools.ip([`route replace ${textOf(range)} dev ${this.name}`]);
    // Ports of the loopback address lead to pods; what pods themselves send there is dropped by the table of the network.
    if (ports.some(({ nodePort }) => nodePort !== undefined))
      tools.set(`net/ipv4/conf/${this.name}/route_localnet`, '1');
    await tools.nft(rules);
    this.#serviceRules = rules;
  }

  /** Everything, whatever there is of it; what fails is logged and keeps nothing else from going. */
  async remove(): Promise<void> {
    const { tools, forwarding, log } = this.#deps;
    const attempt = async (what: string, work: () => unknown) => {
      try {
        await work();
      } catch (error) {
        log.warn({ what, err: errorMessage(error) }, 'a part of the pod network could not be removed');
      }
    };
    if (this.isThere) await attempt('bridge', () => tools.ip([`link delete dev ${this.name}`]));
    await attempt('forwarding', () => forwarding.close(this.name));
    await attempt('rules', () => tools.nft(withoutRules(this.#names)));
  }

  /** A table cannot let pass what another one drops. */
  async foreignDrops(): Promise<string[]> {
    return foreignDrops(await this.#deps.tools.nftJson(['list', 'ruleset']), this.name);
  }

  #made(): string {
    return `link add name ${this.name} address ${macOf(this.name)} type bridge`;
  }

  #commands({ subnets: { ipv4, ipv6 }, mtu, ports }: PluggedNetwork): string[] {
    const links = this.#deps.tools.links();
    const broadcast = addressAt(ipv4, 2 ** (32 - ipv4.prefix) - 1);
    return [
      `link set dev ${this.name} mtu ${mtu} up`,
      `address replace ${addressAt(ipv4, gatewayOffset)}/${ipv4.prefix} broadcast ${broadcast} dev ${this.name}`,
      ...(ipv6 ? [`address replace ${addressAt(ipv6, gatewayOffset)}/${ipv6.prefix} dev ${this.name} nodad`] : []),
      ...ports.filter((port) => links.includes(port)).map((port) => `link set dev ${port} master ${this.name} up`),
    ];
  }

  /** No guest tells the machine where to send its packets. */
  #settings({ subnets }: NodeNetwork): [string, string][] {
    const [ipv4, ipv6] = ['ipv4', 'ipv6'].map((family) => `net/${family}/conf/${this.name}`);
    const all: [string, string][] = [
      [`${ipv4}/forwarding`, '1'],
      [`${ipv4}/accept_redirects`, '0'],
      [`${ipv6}/accept_ra`, '0'],
      [`${ipv6}/accept_redirects`, '0'],
      ...(subnets.ipv6 ? [[`${ipv6}/force_forwarding`, '1'] as [string, string]] : []),
    ];
    return all.filter(([name]) => this.#deps.tools.setting(name) !== undefined);
  }

  /** Rules first: what forwards is guarded from its first packet on. */
  async #openUp({ subnets }: NodeNetwork): Promise<void> {
    const { tools, forwarding } = this.#deps;
    const rules = filterRules(this.#names, subnets, forwarding.links());
    await tools.nft(rules);
    this.#rules = rules;
    if (this.#serviceRules !== '') await tools.nft(this.#serviceRules);
    await forwarding.open();
  }
}
