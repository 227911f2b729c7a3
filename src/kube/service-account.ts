import { readFile } from 'node:fs/promises';
import { type Clock, errorMessage, systemClock } from '../base/index.ts';
import type { Credentials, RequestIdentity } from './credentials.ts';
import { KubeError } from './errors.ts';

export interface ServiceAccountOptions {
  readonly tokenFile: string;
  /** The kubelet replaces the token in the file long before it expires. */
  readonly rereadMs?: number;
}

/** Token of the pod's service account, read again after a minute or a 401. An unreadable file keeps the last token. */
export class ServiceAccountCredentials implements Credentials {
  readonly #options: ServiceAccountOptions;
  readonly #clock: Clock;
  #held: { identity: RequestIdentity; readMs: number } | undefined;
  #stale = false;

  constructor(options: ServiceAccountOptions, deps: { clock?: Clock } = {}) {
    this.#options = options;
    this.#clock = deps.clock ?? systemClock;
  }

  async current(): Promise<RequestIdentity> {
    const nowMs = this.#clock.monotonicMs();
    const { rereadMs = 60_000 } = this.#options;
    if (this.#held && !this.#stale && nowMs - this.#held.readMs < rereadMs) return this.#held.identity;
    try {
      const token = (await readFile(this.#options.tokenFile, 'utf8')).trim();
      if (token === '') throw new Error(`${this.#options.tokenFile} is empty`);
      this.#held = { identity: { headers: { authorization: `Bearer ${token}` } }, readMs: nowMs };
      this.#stale = false;
    } catch (cause) {
      if (!this.#held) {
        throw new KubeError('BAD_CONFIG', `service account token: ${errorMessage(cause)}`, { cause });
      }
      this.#held = { ...this.#held, readMs: nowMs };
    }
    return this.#held.identity;
  }

  invalidate(): boolean {
    this.#stale = true;
    return true;
  }
}
