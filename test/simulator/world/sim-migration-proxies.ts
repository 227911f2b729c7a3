import type { MigrationProxies, ProxyFigures, ProxyPorts, SourceProxy, TargetProxy } from '../../../src/agent/index.ts';
import { Listeners } from '../../fixtures/agent/listeners.ts';
import type { Life } from '../engine/scheduler.ts';
import type { Wire } from '../engine/wire.ts';
import { resumeMs, stallMs } from '../plan.ts';
import type { SimNode } from './sim-host.ts';

export interface SimProxiesDeps {
  readonly node: SimNode;
  readonly wire: Wire;
  readonly life: Life;
}

/** Streams that nothing moves through; they do not break by themselves. */
interface Frozen {
  /** The process does not answer either. */
  readonly isProcess: boolean;
  isNoticed: boolean;
}

type Side = 'source' | 'target';

/** The streams of one agent: they end with its process. */
export class SimProxies implements MigrationProxies {
  readonly supported = true;
  readonly outliveAgent = false;
  readonly resumeMs = resumeMs;
  readonly stallMs = stallMs;
  unavailable: string | undefined;
  /** The network between the nodes is away: proxies stand, and nothing goes through. */
  areCut = false;
  readonly #deps: SimProxiesDeps;
  readonly #targets = new Map<string, TargetProxy & { readonly ports: ProxyPorts }>();
  readonly #sources = new Map<string, SourceProxy>();
  readonly #frozen = new Map<string, Frozen>();
  readonly #ended = new Map<string, ReturnType<MigrationProxies['sourceEnded']>>();
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

  sourceEnded(uid: string): ReturnType<MigrationProxies['sourceEnded']> {
    return this.#ended.get(uid);
  }

  sourceStalledSeconds(uid: string): number {
    const frozen = this.#frozen.get(`source ${uid}`);
    return frozen?.isNoticed && !frozen.isProcess ? stallMs / 1_000 : 0;
  }

  isFrozen(side: Side, uid: string): boolean {
    return this.#frozen.has(`${side} ${uid}`);
  }

  /** Undefined: it is not open. The result is what the one who keeps the processes does when the time for it has passed. */
  freeze(side: Side, uid: string, isProcess: boolean): (() => void) | undefined {
    const proxy = (side === 'source' ? this.#sources : this.#targets).get(uid);
    if (!proxy) return undefined;
    const frozen: Frozen = { isProcess, isNoticed: false };
    const id = `${side} ${uid}`;
    this.#frozen.set(id, frozen);
    return () => {
      if (this.#frozen.get(id) !== frozen) return;
      frozen.isNoticed = true;
      if (isProcess) {
        const { migrationUid } = proxy;
        if (side === 'source') this.#ended.set(uid, { side, uid, migrationUid, reason: 'stream frozen' });
        this.#drop(side, uid);
      }
      this.#listeners.publish(proxy.key);
    };
  }

  #drop(side: Side, uid: string): void {
    (side === 'source' ? this.#sources : this.#targets).delete(uid);
    this.#frozen.delete(`${side} ${uid}`);
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
    this.#drop('target', proxy.uid);
    this.#targets.set(proxy.uid, { ...proxy, ports });
    this.#listeners.publish(proxy.key);
  }

  async openSource(proxy: SourceProxy): Promise<void> {
    await this.#work(`streams of ${proxy.uid}`);
    const known = this.#sources.get(proxy.uid);
    // The same again changes nothing.
    if (!known || JSON.stringify(known) !== JSON.stringify(proxy)) this.#drop('source', proxy.uid);
    this.#sources.set(proxy.uid, proxy);
    this.#listeners.publish(proxy.key);
  }

  async closeTarget(uid: string): Promise<void> {
    this.#drop('target', uid);
  }

  async closeSource(uid: string): Promise<void> {
    this.#drop('source', uid);
  }

  /** The process leaves. */
  closeAll(): void {
    this.#targets.clear();
    this.#sources.clear();
    this.#frozen.clear();
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
