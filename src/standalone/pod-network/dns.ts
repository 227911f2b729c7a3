import { Resolver } from 'node:dns/promises';
import { chmod, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { errorMessage, sleep } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { writeForThisBoot } from '../files.ts';

/** Of the node's own names; no name server of the world will ever have it. */
export const dnsDomain = 'vm.internal';
/** It binds its port some milliseconds after it was started; seconds on a busy machine. */
const startMs = 5_000;
const nodeName = `node.${dnsDomain}`;

/** The DNS server as a process that is kept running. */
export interface DnsProgram {
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Leaves it running without a supervisor. */
  leave(): void;
  /** Tells it to read its names again. */
  reload(): void;
}

/** `<vmi>.<namespace>`; undefined for what is no name of DNS. */
export function addressableName(name: string, namespace: string): string | undefined {
  const full = `${name}.${namespace}`;
  return isAddressableName(full) ? full : undefined;
}

export function isAddressableName(name: string): boolean {
  const isName = name.split('.').every((label) => /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(label));
  return isName && name.length < 240;
}

export interface Name {
  readonly name: string;
  readonly addresses: readonly string[];
}

interface DnsOptions {
  /** Readable for dnsmasq, which is no root. */
  readonly dir: string;
  /** Of the bridge. */
  readonly addresses: readonly string[];
}

/** Answers pods on the bridge only: for their own names, and for others what the machine's name servers say. */
export class PodDns {
  readonly #options: DnsOptions;
  readonly #program: DnsProgram;

  constructor(options: DnsOptions, start: (argv: readonly [string, ...string[]]) => DnsProgram) {
    this.#options = options;
    this.#program = start([
      'dnsmasq',
      ...['--keep-in-foreground', '--conf-file=/dev/null', '--pid-file=', '--log-facility=-', '--user=nobody'],
      ...['--bind-interfaces', ...options.addresses.map((address) => `--listen-address=${address}`)],
      ...['--no-hosts', `--addn-hosts=${this.#file}`, `--local=/${dnsDomain}/`],
      ...['--domain-needed', '--bogus-priv', '--cache-size=1000'],
    ]);
  }

  /** Rejects with NodeError POD_NETWORK when it does not answer. */
  async start(names: readonly Name[]): Promise<void> {
    await this.#write(names);
    await this.#program.start();
    const cause = await this.#untilAnswered();
    if (cause === undefined) return;
    await this.#program.stop();
    const problem = `dnsmasq does not answer at ${this.#options.addresses[0]} (${errorMessage(cause)})`;
    const advice = 'does another program have port 53 of all addresses (ss -lnup sport = 53)?';
    throw new NodeError('POD_NETWORK', `${problem}: ${advice}`, { cause });
  }

  /** The last error, if it never does. */
  async #untilAnswered(): Promise<unknown> {
    const resolver = new Resolver({ timeout: 500, tries: 1 });
    resolver.setServers(this.#options.addresses.slice(0, 1));
    const endMs = performance.now() + startMs;
    for (;;) {
      const error: unknown = await resolver.resolve4(nodeName).then(
        () => undefined,
        (cause: unknown) => cause,
      );
      if (error === undefined || performance.now() > endMs) return error;
      await sleep(25);
    }
  }

  async update(names: readonly Name[]): Promise<void> {
    await this.#write(names);
    this.#program.reload();
  }

  leave(): void {
    this.#program.leave();
  }

  async stop(): Promise<void> {
    await this.#program.stop();
  }

  get #file(): string {
    return path.join(this.#options.dir, 'names');
  }

  async #write(names: readonly Name[]): Promise<void> {
    const { dir, addresses } = this.#options;
    await mkdir(dir, { recursive: true });
    for (const each of [path.dirname(dir), dir]) await chmod(each, 0o755);
    const all = [
      { name: nodeName, addresses },
      ...names.map((each) => ({ ...each, name: `${each.name}.${dnsDomain}` })),
    ];
    const lines = all.flatMap((each) => each.addresses.map((address) => `${address} ${each.name}\n`));
    await writeForThisBoot(this.#file, lines.join(''), 0o644);
    // The node's own mask leaves it to root.
    await chmod(this.#file, 0o644);
  }
}
