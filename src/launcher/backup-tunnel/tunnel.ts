import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import { backoffDelayMs, type Clock, errorMessage, type Logger, sleep } from '../../base/index.ts';
import { keepAlive, serveTunnel, TunnelError, tunnelSettings } from '../../nbd-tunnel/index.ts';
import { servedDisks } from './served-disks.ts';

/** Where an exporter waits, who it has to be, and who comes. */
interface TunnelTarget {
  /** A host, and a port unless it is that of HTTPS. */
  readonly address: string;
  /** In its certificate. */
  readonly serverName: string;
  /** All PEM. */
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export interface BackupTunnelOptions {
  /** Where QEMU serves the disks. */
  readonly nbdSocket: string;
}

export interface BackupTunnelDeps {
  readonly log: Logger;
  readonly clock: Clock;
}

const connectMs = 10_000;
/** The exporter is made while this begins, and may be made anew. */
const backoff = { baseMs: 500, maxMs: 10_000, jitter: 0.1 };
/** Before it is told: it has had a minute by then. */
const failuresBeforeWord = 10;

/** Keeps a connection to the exporter of one backup until it is closed; what QEMU serves is read over it. */
export class BackupTunnel {
  readonly #options: BackupTunnelOptions;
  readonly #deps: BackupTunnelDeps;
  #open: { readonly target: TunnelTarget; readonly ending: AbortController } | undefined;

  constructor(options: BackupTunnelOptions, deps: BackupTunnelDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** The same target again changes nothing; another one takes the place of the first. `connected`: called each time it has been reached. */
  open(target: TunnelTarget, connected: () => void): void {
    if (this.#open && isSame(this.#open.target, target)) return;
    this.close();
    const ending = new AbortController();
    this.#open = { target, ending };
    void this.#keep(target, connected, ending.signal);
  }

  /** Whoever reads is cut off. */
  close(): void {
    this.#open?.ending.abort(new TunnelError('CUT', 'the backup has ended'));
    this.#open = undefined;
  }

  /** Never rejects. */
  async #keep(target: TunnelTarget, connected: () => void, signal: AbortSignal): Promise<void> {
    const { log, clock } = this.#deps;
    for (let failures = 0; !signal.aborted; ) {
      try {
        await this.#serve(target, connected, signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        failures++;
        const fields = { address: target.address, failures, reason: errorMessage(error) };
        const level = failures % failuresBeforeWord === 0 ? 'warn' : 'debug';
        log[level](fields, 'the exporter of the backup is not reached');
      }
      const delayMs = backoffDelayMs(Math.max(1, failures), backoff);
      await sleep(delayMs, signal, clock).catch(() => undefined);
    }
  }

  /** Resolves when a connection that was made has ended. */
  async #serve(target: TunnelTarget, connected: () => void, signal: AbortSignal): Promise<void> {
    const { log, clock } = this.#deps;
    const { address } = target;
    const session = dial(target);
    const end = () => session.destroy();
    signal.addEventListener('abort', end, { once: true });
    const cancelDial = clock.schedule(connectMs, () => session.destroy(new TunnelError('CUT', 'no answer in time')));
    try {
      const stream = await connectThrough(session, address);
      cancelDial();
      keepAlive(session, clock);
      log.info({ address }, 'the backup can be read by its exporter');
      connected();
      await serveTunnel(stream, servedDisks(this.#options.nbdSocket));
      log.info({ address }, 'the exporter of the backup has gone');
    } finally {
      cancelDial();
      signal.removeEventListener('abort', end);
      session.destroy();
    }
  }
}

function dial({ address, serverName, ca, cert, key }: TunnelTarget): ClientHttp2Session {
  const { settings, maxSessionMemory } = tunnelSettings;
  const tls = { ca, cert, key, servername: serverName, minVersion: 'TLSv1.2', ALPNProtocols: ['h2'] } as const;
  const session = connect(`https://${address}`, { ...tls, settings, maxSessionMemory });
  session.on('error', () => undefined);
  return session;
}

function connectThrough(session: ClientHttp2Session, authority: string): Promise<ClientHttp2Stream> {
  return new Promise((resolve, reject) => {
    session.once('error', reject);
    session.once('close', () => reject(new TunnelError('CUT', 'the connection has ended')));
    const stream = session.request({ ':method': 'CONNECT', ':authority': authority });
    stream.on('error', reject);
    stream.once('response', ({ ':status': status }) => {
      if (status === 200) resolve(stream);
      else reject(new TunnelError('REFUSED', `the exporter answers with status ${status}`));
    });
  });
}

function isSame(left: TunnelTarget, right: TunnelTarget): boolean {
  return (Object.keys(left) as (keyof TunnelTarget)[]).every((name) => left[name] === right[name]);
}
