import path from 'node:path';
import { backoffDelayMs, type Clock, errorMessage, type Logger, withOwnEnding } from '../base/index.ts';
import { entryIdentity } from '../host/index.ts';
import { registerPlugin } from './calls.ts';
import { DevicePluginError, type DevicePluginErrorCode } from './errors.ts';
import type { PluginService } from './plugin-service.ts';
import { PluginSocket } from './plugin-socket.ts';

/** What the kubelet knows of a plugin. Times are monotonic. */
export type PluginState =
  | { readonly kind: 'starting'; readonly sinceMs: number }
  | {
      readonly kind: 'waiting';
      readonly code: DevicePluginErrorCode;
      readonly reason: string;
      readonly sinceMs: number;
    }
  | { readonly kind: 'registered'; readonly sinceMs: number };

export interface DevicePluginOptions {
  /** The kubelet's, with its `kubelet.sock`. */
  readonly directory: string;
  readonly resourceName: string;
  /** Of the plugin's socket, without directory. */
  readonly socketName: string;
}

export interface DevicePluginDeps {
  readonly service: PluginService;
  readonly clock: Clock;
  readonly log: Logger;
  readonly onChange: () => void;
}

/** Of the kubelet's socket in its directory. */
export const kubeletSocketName = 'kubelet.sock';

/** The kubelet dials the plugin, with a limit of 10 s, before it answers. */
const registerTimeoutMs = 12_000;
const proveTimeoutMs = 5_000;
const leaveMs = 1_000;
const retry = { baseMs: 50, maxMs: 10_000 };
/** The kubelet listens right after the registration. Later it is repeated: one that lost the stream never asks by itself. */
const unheard = { baseMs: 3_000, maxMs: 60_000 };
/** One that has not listened for so long is a problem: it counts no device of this plugin. */
const silenceMs = 15_000;
/** A shorter look at the list does not end a silence. */
const steadyMs = 5_000;

/**
 * One resource of this node. `reconcile` looks at what is there and does what is missing: the own socket, and word to the kubelet
 * that runs now. A kubelet that restarts takes all sockets away and makes its own anew; either is enough to do it again.
 */
export class DevicePlugin {
  readonly #options: DevicePluginOptions;
  readonly #deps: DevicePluginDeps;
  readonly #kubeletSocket: string;
  #state: PluginState;
  #socket: PluginSocket | undefined;
  /** The kubelet's socket at which this plugin is registered. */
  #registeredAt: string | undefined;
  /** The kubelet's socket of the last try: another one is tried at once. */
  #triedAt: string | undefined;
  #failures = 0;
  /** The call to the kubelet that is under way, or was. */
  #call: { readonly kubelet: string; readonly ending: AbortController } | undefined;
  #unheardSinceMs = 0;
  #unheardTimes = 0;
  /** The kubelet's socket at which the silence counts. */
  #silentAt: string | undefined;
  #silentSinceMs = 0;
  #heardSinceMs: number | undefined;

  constructor(options: DevicePluginOptions, deps: DevicePluginDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#kubeletSocket = path.join(options.directory, kubeletSocketName);
    this.#state = { kind: 'starting', sinceMs: deps.clock.monotonicMs() };
  }

  get state(): PluginState {
    return this.#state;
  }

  /** Never rejects but for an aborted `signal`. Resolves with the time until it should look again; undefined: at the next event. */
  async reconcile(signal: AbortSignal): Promise<number | undefined> {
    const kubelet = entryIdentity(this.#kubeletSocket);
    if (kubelet !== this.#triedAt) this.#failures = 0;
    this.#triedAt = kubelet;
    try {
      await this.#ensureSocket(signal);
      return await this.#ensureRegistered(signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#failures++;
      return this.#failed(error);
    }
  }

  /** Says with an empty list that it leaves, and takes its socket away. */
  async stop(): Promise<void> {
    const hasListeners = this.#deps.service.listeners > 0;
    this.#deps.service.endStreams();
    await this.#socket?.close(hasListeners ? leaveMs : 0);
    this.#socket = undefined;
    this.#registeredAt = undefined;
  }

  async #ensureSocket(signal: AbortSignal): Promise<void> {
    if (this.#socket?.isInPlace) return;
    const { directory, socketName } = this.#options;
    this.#registeredAt = undefined;
    this.#silentAt = undefined;
    // Before the new one: a listener that is closed removes the file of that name. And the kubelet mistakes the end of an old
    // stream for the end of the new plugin when it comes later.
    await this.#socket?.close();
    this.#socket = undefined;
    const limits = { timeoutMs: proveTimeoutMs, signal };
    this.#socket = await PluginSocket.open(path.join(directory, socketName), this.#deps.service.handlers, limits);
  }

  async #ensureRegistered(signal: AbortSignal): Promise<number | undefined> {
    // Right before the call: after one at an older socket, the kubelet that answers would have two.
    const kubelet = entryIdentity(this.#kubeletSocket);
    if (kubelet === undefined) {
      this.#registeredAt = undefined;
      throw new DevicePluginError('KUBELET_ABSENT', `${this.#kubeletSocket} is not there`);
    }
    const { clock, service, log } = this.#deps;
    const { resourceName, socketName: endpoint } = this.#options;
    if (this.#registeredAt === kubelet) {
      const nextMs = this.#judge();
      if (service.listeners > 0) return undefined;
      const leftMs = this.#unheardSinceMs + backoffDelayMs(this.#unheardTimes + 1, unheard) - clock.monotonicMs();
      if (leftMs > 0) return Math.min(leftMs, nextMs);
      this.#unheardTimes++;
      log.warn({ resource: resourceName }, 'the kubelet does not listen to this device plugin: it is told again');
    }
    this.#registeredAt = undefined;
    await withOwnEnding(signal, async (ending) => {
      this.#call = { kubelet, ending };
      const limits = { timeoutMs: registerTimeoutMs, signal: ending.signal };
      await registerPlugin(this.#kubeletSocket, { endpoint, resourceName }, limits);
    });
    this.#registeredAt = kubelet;
    this.#failures = 0;
    this.#unheardSinceMs = clock.monotonicMs();
    if (this.#silentAt !== kubelet) this.#silentSinceMs = this.#unheardSinceMs;
    this.#silentAt = kubelet;
    return Math.min(backoffDelayMs(this.#unheardTimes + 1, unheard), this.#judge());
  }

  /** Registered is who is listened to, or not yet for long. Gives the time until that may be another thing. */
  #judge(): number {
    const nowMs = this.#deps.clock.monotonicMs();
    const leftMs =
      this.#deps.service.listeners > 0 ? Number.POSITIVE_INFINITY : this.#silentSinceMs + silenceMs - nowMs;
    if (leftMs > 0) {
      this.#become({ kind: 'registered', sinceMs: this.#state.kind === 'registered' ? this.#state.sinceMs : nowMs });
      return leftMs;
    }
    const reason = 'the kubelet took the registration and does not ask for its devices';
    this.#become({ kind: 'waiting', code: 'NOT_LISTENED', reason, sinceMs: this.#silentSinceMs });
    return Number.POSITIVE_INFINITY;
  }

  /** There may be another kubelet's socket, or none: what is under way with the last one is given up. */
  kubeletChanged(): void {
    if (this.#call?.kubelet === entryIdentity(this.#kubeletSocket)) return;
    this.#call?.ending.abort(new DevicePluginError('KUBELET_SILENT', 'the kubelet went away before it answered'));
  }

  /** The list of devices is listened to, or no longer. */
  onStreams(): void {
    const nowMs = this.#deps.clock.monotonicMs();
    this.#unheardSinceMs = nowMs;
    if (this.#deps.service.listeners > 0) {
      this.#unheardTimes = 0;
      this.#heardSinceMs ??= nowMs;
      return;
    }
    if (this.#heardSinceMs !== undefined && nowMs - this.#heardSinceMs >= steadyMs) this.#silentSinceMs = nowMs;
    this.#heardSinceMs = undefined;
  }

  #failed(error: unknown): number {
    const code = error instanceof DevicePluginError ? error.code : 'SOCKET_FAILED';
    const { clock } = this.#deps;
    const before = this.#state;
    const sinceMs = before.kind === 'registered' ? clock.monotonicMs() : before.sinceMs;
    this.#become({ kind: 'waiting', code, reason: errorMessage(error), sinceMs });
    return backoffDelayMs(this.#failures, retry);
  }

  #become(state: PluginState): void {
    const before = this.#state;
    this.#state = state;
    const isSame = before.kind === state.kind && reasonOf(before) === reasonOf(state);
    if (isSame) return;
    const { log, onChange } = this.#deps;
    const { resourceName: resource } = this.#options;
    if (state.kind === 'registered') log.info({ resource }, 'device plugin registered');
    if (state.kind === 'waiting') log.warn({ resource, reason: state.reason }, 'device plugin is not registered yet');
    onChange();
  }
}

function reasonOf(state: PluginState): string | undefined {
  return state.kind === 'waiting' ? state.reason : undefined;
}
