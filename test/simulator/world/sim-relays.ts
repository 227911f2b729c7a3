import type { MigrationRelays, RelayPorts, SourceRelay, TargetRelay } from '../../../src/agent/index.ts';
import { Listeners } from '../../fixtures/agent/listeners.ts';
import type { Life } from '../engine/scheduler.ts';
import type { Wire } from '../engine/wire.ts';
import type { SimNode } from './sim-host.ts';

export interface SimRelaysDeps {
  readonly node: SimNode;
  readonly wire: Wire;
  readonly life: Life;
}

/** The streams of one agent: they end with its process. */
export class SimRelays implements MigrationRelays {
  readonly supported = true;
  unavailable: string | undefined;
  readonly #deps: SimRelaysDeps;
  readonly #targets = new Map<string, TargetRelay & { readonly ports: RelayPorts }>();
  readonly #sources = new Map<string, SourceRelay>();
  readonly #listeners = new Listeners();

  constructor(deps: SimRelaysDeps) {
    this.#deps = deps;
  }

  get life(): Life {
    return this.#deps.life;
  }

  get address(): string {
    return this.#deps.node.address;
  }

  get open(): number {
    return new Set([...this.#targets.keys(), ...this.#sources.keys()]).size;
  }

  targetPorts(uid: string): RelayPorts | undefined {
    return this.#targets.get(uid)?.ports;
  }

  hasSource(uid: string): boolean {
    return this.#sources.has(uid);
  }

  /** Where this VMI's streams lead from here. */
  sourceOf(uid: string): SourceRelay | undefined {
    return this.#sources.get(uid);
  }

  async openTarget(relay: TargetRelay): Promise<void> {
    const known = this.#targets.get(relay.uid);
    if (known?.launcherPid === relay.launcherPid && known.roles.join() === relay.roles.join()) return;
    await this.#work(`listens for ${relay.uid}`);
    const { node } = this.#deps;
    const ports = Object.fromEntries(relay.roles.map((role) => [String(node.freePort()), role]));
    this.#targets.set(relay.uid, { ...relay, ports });
    this.#listeners.tell(relay.key);
  }

  async openSource(relay: SourceRelay): Promise<void> {
    await this.#work(`streams of ${relay.uid}`);
    this.#sources.set(relay.uid, relay);
    this.#listeners.tell(relay.key);
  }

  async closeTarget(uid: string): Promise<void> {
    this.#targets.delete(uid);
  }

  async closeSource(uid: string): Promise<void> {
    this.#sources.delete(uid);
  }

  /** The process leaves. */
  closeAll(): void {
    this.#targets.clear();
    this.#sources.clear();
  }

  refuse(reason: string): void {
    this.unavailable = reason;
  }

  onChange(listener: (key: string) => void): () => void {
    return this.#listeners.add(listener);
  }

  #work(label: string): Promise<void> {
    const { wire, life, node } = this.#deps;
    return wire.request({ life, label }, () => {
      if (node.relaysFail) throw new Error('no port is free');
    });
  }
}
