import type { MigrationProxies, ProxyFigures, ProxyPorts, SourceProxy, TargetProxy } from '../../../src/agent/index.ts';
import { Listeners } from '../../fixtures/agent/listeners.ts';
import type { Life } from '../engine/scheduler.ts';
import type { Wire } from '../engine/wire.ts';
import { resumeMs } from '../plan.ts';
import type { SimNode } from './sim-host.ts';

export interface SimProxiesDeps {
  readonly node: SimNode;
  readonly wire: Wire;
  readonly life: Life;
}

/** The streams of one agent: they end with its process. */
export class SimProxies implements MigrationProxies {
  readonly supported = true;
  readonly outliveAgent = false;
  readonly resumeMs = resumeMs;
  unavailable: string | undefined;
  /** The network between the nodes is away: proxies stand, and nothing goes through. */
  areCut = false;
  readonly #deps: SimProxiesDeps;
  readonly #targets = new Map<string, TargetProxy & { readonly ports: ProxyPorts }>();
  readonly #sources = new Map<string, SourceProxy>();
  readonly #listeners = new Listeners();

  constructor(deps: SimProxiesDeps) {
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

  figures(): readonly ProxyFigures[] {
    return [];
  }

  targetPorts(uid: string): ProxyPorts | undefined {
    return this.#targets.get(uid)?.ports;
  }

  hasSource(uid: string): boolean {
    return this.#sources.has(uid);
  }

  migrationOf(side: 'target' | 'source', uid: string): string | undefined {
    return (side === 'target' ? this.#targets : this.#sources).get(uid)?.migrationUid;
  }

  /** Where this VMI's streams lead from here. */
  sourceOf(uid: string): SourceProxy | undefined {
    return this.#sources.get(uid);
  }

  async openTarget(proxy: TargetProxy): Promise<void> {
    const known = this.#targets.get(proxy.uid);
    if (known?.launcherPid === proxy.launcherPid && known.roles.join() === proxy.roles.join()) return;
    await this.#work(`listens for ${proxy.uid}`);
    const { node } = this.#deps;
    const ports = Object.fromEntries(proxy.roles.map((role) => [String(node.freePort()), role]));
    this.#targets.set(proxy.uid, { ...proxy, ports });
    this.#listeners.publish(proxy.key);
  }

  async openSource(proxy: SourceProxy): Promise<void> {
    await this.#work(`streams of ${proxy.uid}`);
    this.#sources.set(proxy.uid, proxy);
    this.#listeners.publish(proxy.key);
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
      if (node.proxyFail) throw new Error('no port is free');
    });
  }
}
