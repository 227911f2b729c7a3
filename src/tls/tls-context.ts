import { constants } from 'node:crypto';
import { type ConnectionOptions, createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls';
import { errorMessage, type Logger, unreachable } from '../base/index.ts';
import type { Authorities } from './authorities.ts';
import { authorizeServer, type PeerRule } from './authorize-peer.ts';
import { type ChangingValue, SettableValue } from './changing-value.ts';
import type { KeyPair } from './key-pair.ts';
import type { TlsSettings } from './tls-settings.ts';

export interface TlsContextOptions {
  /** `none`: peers show no certificate, and no authorities are waited for. */
  readonly verify: 'peers' | 'none';
}

export interface TlsContextDeps {
  /** The own one, as server or as client. */
  readonly keyPair: ChangingValue<KeyPair>;
  /** Ignored where no peers are verified. */
  readonly authorities: ChangingValue<Authorities>;
  readonly settings: ChangingValue<TlsSettings>;
  readonly log: Logger;
}

/** Whether handshakes can succeed. */
export type TlsState =
  | { readonly kind: 'waiting'; readonly missing: readonly string[] }
  | { readonly kind: 'unusable'; readonly reason: string }
  | {
      readonly kind: 'ready';
      readonly commonName: string;
      readonly expiresAt: string;
      readonly authorities: number;
      readonly minVersion: string;
    };

/** What the handshakes of now use. */
export interface TlsMaterial {
  /** For `setSecureContext` of a server, which makes a context of its own. */
  readonly options: SecureContextOptions;
  readonly authorities: Authorities;
}

/**
 * Sessions are never resumed: a ticket would let a client in whose certificate has expired or whose authority is gone.
 * Go's servers do not renegotiate either.
 */
const secureOptions = constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION;
const noAuthorities: Authorities = { pems: [], certificates: [] };

/**
 * The TLS context of now, made of a key pair, authorities and settings that change while it is used: for HTTPS servers and raw TLS
 * servers (`TlsServer`), and for TLS clients (`connectOptions`). Each change applies to the handshakes to come and ends no open
 * connection. What cannot be used is logged, and the last good context stays.
 */
export class TlsContext {
  readonly #options: TlsContextOptions;
  readonly #deps: TlsContextDeps;
  readonly #material = new SettableValue<TlsMaterial>();
  readonly #ends: readonly (() => void)[];
  #state: TlsState = { kind: 'waiting', missing: [] };
  /** Of the material of now, made when the first client asks. */
  #clients: { readonly of: TlsMaterial; readonly secureContext: SecureContext } | undefined;

  constructor(options: TlsContextOptions, deps: TlsContextDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#reload();
    const values = [deps.keyPair, deps.settings, ...(options.verify === 'peers' ? [deps.authorities] : [])];
    this.#ends = values.map((value) => value.onChange(() => this.#reload()));
  }

  get state(): TlsState {
    return this.#state;
  }

  /** Undefined: something is missing yet. Otherwise the last that could be used. */
  get current(): TlsMaterial | undefined {
    return this.#material.current;
  }

  /** Why handshakes cannot succeed yet, or why the newest input is not used; undefined when all is well. */
  get problem(): string | undefined {
    return problemOf(this.#state);
  }

  /** One context for all clients until the next change: each costs some 30 KB. */
  get secureContext(): SecureContext | undefined {
    const material = this.current;
    if (!material) return undefined;
    if (this.#clients?.of !== material) {
      this.#clients = { of: material, secureContext: createSecureContext(material.options) };
    }
    return this.#clients.secureContext;
  }

  /**
   * For `tls.connect` and `https.request` with `agent: false`; to be asked for anew before each connection. Undefined: not ready.
   * The handshake fails for servers that `servers` does not name, or whose chain does not end at an authority: for all of them
   * when the context verifies no peers.
   */
  connectOptions(servers: PeerRule): ConnectionOptions | undefined {
    const { current, secureContext } = this;
    if (!current || !secureContext) return undefined;
    const checkServerIdentity = authorizeServer(current.authorities, servers);
    return { secureContext, rejectUnauthorized: true, checkServerIdentity };
  }

  /** Calls back now, when there is something to use, and after each change; the returned function ends it. */
  follow(use: (material: TlsMaterial) => void): () => void {
    const apply = () => {
      if (this.current) use(this.current);
    };
    apply();
    return this.#material.onChange(apply);
  }

  /** Follows no changes any more; what it has stays in use. */
  stop(): void {
    for (const end of this.#ends) end();
  }

  #reload(): void {
    const { keyPair, authorities, settings } = this.#deps;
    const trusted = this.#options.verify === 'none' ? noAuthorities : authorities.current;
    const [pair, accepted] = [keyPair.current, settings.current];
    if (pair && trusted && accepted) {
      this.#become(this.#use(pair, trusted, accepted));
      return;
    }
    const missing = [
      ...(pair ? [] : ['key pair']),
      ...(trusted ? [] : ['bundle of authorities']),
      ...(accepted ? [] : ['settings']),
    ];
    this.#become({ kind: 'waiting', missing });
  }

  #use(pair: KeyPair, trusted: Authorities, { minVersion, ciphers }: TlsSettings): TlsState {
    const { cert, key, commonName, expiresAt } = pair;
    const options: SecureContextOptions = { cert, key, ca: [...trusted.pems], minVersion, ciphers, secureOptions };
    try {
      createSecureContext(options);
    } catch (error) {
      return { kind: 'unusable', reason: errorMessage(error) };
    }
    this.#material.set({ options, authorities: trusted });
    const count = trusted.certificates.length;
    return { kind: 'ready', commonName, expiresAt: expiresAt.toISOString(), authorities: count, minVersion };
  }

  #become(next: TlsState): void {
    const before = this.#state;
    this.#state = next;
    const { log } = this.#deps;
    switch (next.kind) {
      case 'waiting':
        if (problemOf(before) !== problemOf(next)) log.info({ missing: next.missing }, 'TLS is not ready yet');
        break;
      case 'unusable':
        log.error({ reason: next.reason }, 'TLS cannot use what it was given; it goes on as before');
        break;
      case 'ready': {
        const { kind: _kind, ...fields } = next;
        log.info(fields, before.kind === 'ready' ? 'TLS was reloaded' : 'TLS is ready');
        break;
      }
      default:
        unreachable(next);
    }
  }
}

function problemOf(state: TlsState): string | undefined {
  switch (state.kind) {
    case 'waiting':
      return `no ${state.missing.join(', no ')}`;
    case 'unusable':
      return state.reason;
    case 'ready':
      return undefined;
    default:
      return unreachable(state);
  }
}
