import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import path from 'node:path';
import { listOf } from '../../base/index.ts';
import {
  linkNamesIn,
  NetNamespace,
  readNetworkSetting,
  runInNamespace,
  writeNetworkSetting,
} from '../../host/index.ts';

/** Debian's packages of the programs that a network takes. */
const packages = { ip: 'iproute2', nft: 'nftables', dnsmasq: 'dnsmasq-base', nsenter: 'util-linux' } as const;
const searchPath = ['/usr/local/sbin', '/usr/sbin', '/sbin', '/usr/local/bin', '/usr/bin', '/bin'];
const deadlineMs = 20_000;

/** What is done to the machine's network: by ip(8), by nft(8) and through /proc/sys. All of it throws or rejects with what was complained about. */
export class NetworkTools {
  readonly #namespace: NetNamespace;

  private constructor(namespace: NetNamespace) {
    this.#namespace = namespace;
  }

  /** Of the network namespace that this program is in; who gets it closes it. */
  static async open(): Promise<NetworkTools> {
    return new NetworkTools(await NetNamespace.ofProcess({ pid: process.pid }));
  }

  /** Tells networks of one machine apart. */
  get id(): string {
    return this.#namespace.id;
  }

  close(): void {
    this.#namespace.close();
  }

  links(): string[] {
    return linkNamesIn(this.#namespace);
  }

  /** Undefined when the kernel has no such setting, or no such link. */
  setting(name: string): string | undefined {
    try {
      return readNetworkSetting(this.#namespace, name);
    } catch {
      return undefined;
    }
  }

  set(name: string, value: string): void {
    writeNetworkSetting(this.#namespace, name, value);
  }

  /** Lines of `ip -batch`, in one process. */
  async ip(lines: readonly string[]): Promise<void> {
    await this.#run('ip', ['-batch', '-'], lines.map((line) => `${line}\n`).join(''));
  }

  async ipJson(args: readonly string[]): Promise<readonly unknown[]> {
    return listOf(JSON.parse((await this.#run('ip', ['-json', ...args])) || '[]'));
  }

  /** A file of rules, as a whole or not at all. */
  async nft(rules: string): Promise<void> {
    await this.#run('nft', ['-f', '-'], rules);
  }

  async nftJson(args: readonly string[]): Promise<unknown> {
    return JSON.parse(await this.#run('nft', ['-j', ...args]));
  }

  #run(program: string, args: readonly string[], input = ''): Promise<string> {
    return runInNamespace(this.#namespace, { program, args, input }, AbortSignal.timeout(deadlineMs));
  }
}

/** What to install, in words; undefined when all is there. */
export async function missingTools(): Promise<string | undefined> {
  const names = Object.keys(packages) as (keyof typeof packages)[];
  const found = await Promise.all(names.map(isInstalled));
  const missing = names.filter((_, at) => !found[at]);
  if (missing.length === 0) return undefined;
  const words = missing.map((name) => packages[name]).join(' ');
  return `${missing.join(' and ')} ${missing.length > 1 ? 'are' : 'is'} missing (apt-get install ${words})`;
}

async function isInstalled(name: string): Promise<boolean> {
  for (const file of searchPath.map((dir) => path.join(dir, name))) {
    const isThere = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return true;
  }
  return false;
}
