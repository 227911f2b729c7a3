import type { Clock, Component } from '../../base/index.ts';
import { processIdOf } from '../../host/index.ts';
import type { ProxyCredentials } from './credentials.ts';
import { MigrationProxyError } from './errors.ts';
import type { EndedStreams, MigrationProxies, ProxyFigures, ProxyPorts, SourceProxy, TargetProxy } from './ports.ts';
import type { KeptProxy, ProxyKeeper } from './proxy-keeper.ts';
import { gone } from './proxy-processes.ts';
import { isSameDuty, type ProxyDuty, type Side } from './proxy-record.ts';
import { stallTimes } from './stall.ts';

export interface AgentProxiesOptions {
  /** Streams that broke in post-copy are opened anew for so long. */
  readonly resumeMs?: number;
  /** As `HaproxyOptions.stallSeconds`. */
  readonly stallSeconds?: number;
  /** The files of certificates are looked for at most so often. */
  readonly lookMs?: number;
}

export interface AgentProxiesDeps {
  readonly keeper: ProxyKeeper;
  readonly credentials: Pick<ProxyCredentials, 'problem' | 'forSide'>;
  /** The cluster wants what is not done here, in words: migrations without TLS. */
  readonly objection?: () => string | undefined;
  readonly clock: Clock;
}

/** The streams of live migrations as the VMI loop asks for them: this agent's certificates, and its own refusal, before whoever keeps the processes. */
export class AgentProxies implements MigrationProxies, Component {
  readonly name = 'migration proxies';
  readonly resumeMs: number;
  readonly stallMs: number;
  readonly #lookMs: number;
  readonly #deps: AgentProxiesDeps;
  #refusal: string | undefined;
  #certificates: { readonly atMs: number; readonly problem: string | undefined } | undefined;

  constructor({ resumeMs = 300_000, stallSeconds = 20, lookMs = 5_000 }: AgentProxiesOptions, deps: AgentProxiesDeps) {
    this.resumeMs = resumeMs;
    this.stallMs = stallTimes(stallSeconds).surelyMs;
    this.#lookMs = lookMs;
    this.#deps = deps;
  }

  get address(): string {
    return this.#deps.keeper.address;
  }

  get supported(): boolean {
    return this.#deps.keeper.supported;
  }

  get outliveAgent(): boolean {
    return this.#deps.keeper.outliveAgent;
  }

  get unavailable(): string | undefined {
    const { keeper, objection } = this.#deps;
    return this.#refusal ?? keeper.problem ?? objection?.() ?? this.#certificateProblem();
  }

  get open(): number {
    return new Set(this.#deps.keeper.kept().map(({ duty }) => duty.uid)).size;
  }

  figures(): readonly ProxyFigures[] {
    return this.#deps.keeper.kept().map(({ figures }) => figures);
  }

  targetPorts(uid: string): ProxyPorts | undefined {
    return this.#deps.keeper.find('target', uid)?.ports;
  }

  hasSource(uid: string): boolean {
    return this.#deps.keeper.find('source', uid) !== undefined;
  }

  migrationOf(side: Side, uid: string): string | undefined {
    return this.#deps.keeper.find(side, uid)?.migrationUid;
  }

  sourceEnded(uid: string): EndedStreams | undefined {
    return this.#deps.keeper.ended().find((each) => each.side === 'source' && each.uid === uid);
  }

  sourceStalledSeconds(uid: string): number {
    const isIt = ({ duty }: KeptProxy) => duty.side === 'source' && duty.uid === uid;
    return this.#deps.keeper.kept().find(isIt)?.figures.stalledSeconds ?? 0;
  }

  refuse(reason: string): void {
    this.#refusal = reason;
  }

  onChange(listener: (key: string) => void): () => void {
    return this.#deps.keeper.onChange(listener);
  }

  start(signal: AbortSignal = new AbortController().signal): Promise<void> {
    return this.#deps.keeper.start(signal);
  }

  stop(): Promise<void> {
    return this.#deps.keeper.stop();
  }

  async openTarget(proxy: TargetProxy, signal: AbortSignal): Promise<void> {
    const { launcherPid, roles, ...wanted } = proxy;
    const ports = Object.fromEntries(roles.map((role, at) => [String(at), role]));
    await this.#open({ side: 'target', ...wanted, launcher: launcherOf(launcherPid), ports }, signal);
  }

  async openSource(proxy: SourceProxy, signal: AbortSignal): Promise<void> {
    const { key, uid, migrationUid, launcherPid, address, ports } = proxy;
    const launcher = launcherOf(launcherPid);
    await this.#open({ side: 'source', key, uid, migrationUid, launcher, address, ports }, signal);
  }

  closeTarget(uid: string): Promise<void> {
    return this.#deps.keeper.close('target', uid);
  }

  closeSource(uid: string): Promise<void> {
    return this.#deps.keeper.close('source', uid);
  }

  /** What is open already is not refused. */
  async #open(duty: ProxyDuty, signal: AbortSignal): Promise<void> {
    const { keeper, credentials } = this.#deps;
    const held = keeper.find(duty.side, duty.uid);
    if (held && isSameDuty(held, duty)) return;
    const { unavailable } = this;
    if (unavailable !== undefined) throw new MigrationProxyError('UNAVAILABLE', unavailable);
    await keeper.open(duty, await credentials.forSide(duty.side), signal);
  }

  #certificateProblem(): string | undefined {
    const { clock, credentials } = this.#deps;
    const nowMs = clock.monotonicMs();
    if (this.#certificates === undefined || nowMs - this.#certificates.atMs >= this.#lookMs) {
      this.#certificates = { atMs: nowMs, problem: credentials.problem };
    }
    return this.#certificates.problem;
  }
}

function launcherOf(pid: number) {
  const launcher = processIdOf(pid);
  if (!launcher) throw gone(pid);
  return launcher;
}
