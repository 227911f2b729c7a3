import { readFileSync, rmSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { errorMessage, type Logger, listOf } from '../../base/index.ts';
import { writeFileAtomic } from '../files.ts';
import { bridgePrefix } from './names.ts';
import type { OpenedLinks } from './rules.ts';
import type { NetworkTools } from './tools.ts';

/**
 * What the kernel forwards between the machine's links and the bridges of its standalone nodes. Not by the machine's own switch: that would make it a router, and lose it its routes of IPv6
 * router advertisements. What was changed stands in one file for all nodes of the machine, and the last of them takes it back.
 */
export class Forwarding {
  readonly #file: string;
  readonly #tools: NetworkTools;
  readonly #log: Logger;

  constructor(
    { sharedDir }: { readonly sharedDir: string },
    deps: { readonly tools: NetworkTools; readonly log: Logger },
  ) {
    // It goes with the boot, as the settings do; test machines have many networks.
    this.#file = path.join(sharedDir, `forwarding-${deps.tools.id.replace(':', '-')}.json`);
    this.#tools = deps.tools;
    this.#log = deps.log;
  }

  /** Linux forwards IPv6 of single links since 6.17; before it takes the machine's switch, which is its owner's. */
  get hasIpv6(): boolean {
    const of = (name: string) => this.#tools.setting(`net/ipv6/conf/${name}`);
    const isOff = of('all/disable_ipv6') !== '0' || of('default/disable_ipv6') !== '0';
    return !isOff && (of('all/forwarding') === '1' || of('all/force_forwarding') !== undefined);
  }

  /**
   * Links that forward, or are still to, only since a node asked for it. Of a machine that somebody has made a router since then there are none: what else it routes is
   * its owner's.
   */
  links(): OpenedLinks & { readonly isNew: boolean } {
    const known = this.#recorded();
    const opened = [...new Set([...known, ...this.#closed()])];
    const of = (pattern: RegExp) =>
      opened.filter((name) => !this.#isRouter(name)).flatMap((name) => pattern.exec(name)?.[1] ?? []);
    return {
      ipv4: of(/^net\/ipv4\/conf\/(.+)\/forwarding$/),
      ipv6: of(/^net\/ipv6\/conf\/(.+)\/force_forwarding$/),
      isNew: this.#closed().length > 0,
    };
  }

  /** After the rules that guard them. */
  async open(): Promise<void> {
    const closed = this.#closed();
    if (closed.length === 0) return;
    await writeFileAtomic(this.#file, JSON.stringify([...new Set([...this.#recorded(), ...closed])]));
    for (const name of closed) this.#tools.set(name, '1');
  }

  /** Before the rules go, unless another node needs them. */
  close(ownBridge: string): void {
    if (this.#tools.links().some((name) => name.startsWith(bridgePrefix) && name !== ownBridge)) return;
    for (const name of this.#recorded()) {
      try {
        // A link that is gone took it along.
        if (!this.#isRouter(name) && this.#tools.setting(name) === '1') this.#tools.set(name, '0');
      } catch (error) {
        this.#log.warn({ name, err: errorMessage(error) }, 'a setting of the network could not be taken back');
      }
    }
    rmSync(this.#file, { force: true });
  }

  /** Somebody has made the machine a router meanwhile, as container engines do: its links are theirs now. */
  #isRouter(name: string): boolean {
    const all = name.replace(/\/conf\/.+\//, '/conf/all/');
    return [all, all.replace('force_forwarding', 'forwarding')].some((each) => this.#tools.setting(each) === '1');
  }

  /** Settings of links with addresses that do not forward. */
  #closed(): string[] {
    const isForwarding = this.#tools.setting('net/ipv6/conf/all/forwarding') === '1';
    return Object.entries(networkInterfaces()).flatMap(([link, addresses = []]) => {
      if (link.startsWith(bridgePrefix) || link.includes('/')) return [];
      const has = (family: string) =>
        addresses.some((each) => each.family === family && !each.internal && !each.address.startsWith('fe80:'));
      const names = [
        ...(has('IPv4') ? [`net/ipv4/conf/${link}/forwarding`] : []),
        ...(has('IPv6') && !isForwarding ? [`net/ipv6/conf/${link}/force_forwarding`] : []),
      ];
      return names.filter((name) => this.#tools.setting(name) === '0');
    });
  }

  #recorded(): string[] {
    try {
      const names = listOf(JSON.parse(readFileSync(this.#file, 'utf8')));
      return names.flatMap((name) => (typeof name === 'string' && name.startsWith('net/ipv') ? [name] : []));
    } catch {
      return [];
    }
  }
}
