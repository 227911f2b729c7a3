import { X509Certificate } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { type Clock, errorCode } from '../../../base/index.ts';
import {
  type Authorities,
  type ChangingValue,
  type KeyPair,
  type KeyPairPaths,
  readKeyPair,
} from '../../../tls/index.ts';

export interface CertificateExpiryOptions {
  /** What the pair is called → its files, asked for at each look. */
  readonly pairs: Readonly<Record<string, () => KeyPairPaths>>;
}

export interface Expiry {
  readonly pair: string;
  readonly expiresAt: Date;
}

export interface PairProblem {
  readonly pair: string;
  readonly why: 'BadCertificate' | 'BadKey' | 'CertificateMissing' | 'KeyMismatch' | 'KeyMissing' | 'Unreadable';
}

/** What was found on disk last. */
export interface FoundCertificates {
  readonly expiries: readonly Expiry[];
  /** Pairs of which something is there, and which cannot be used. Most pairs are optional: one that is not there is none. */
  readonly problems: readonly PairProblem[];
}

const freshMs = 60_000;
/** Two files are exchanged one after the other. */
const problemFreshMs = 5_000;
const maxBytes = 1024 * 1024;
const nothing: FoundCertificates = { expiries: [], problems: [] };

/** When the agent's certificates expire: read again at most once a minute, and only while clients ask. */
export class CertificateExpiry {
  readonly #options: CertificateExpiryOptions;
  readonly #clock: Clock;
  #found = nothing;
  #readMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(options: CertificateExpiryOptions, deps: { readonly clock: Clock }) {
    this.#options = options;
    this.#clock = deps.clock;
  }

  /** As last read; looks again in the background. */
  get current(): FoundCertificates {
    const holdsMs = this.#found.problems.length > 0 ? problemFreshMs : freshMs;
    if (this.#clock.monotonicMs() - this.#readMs >= holdsMs) void this.refresh();
    return this.#found;
  }

  /** Never rejects; one look at a time. */
  refresh(): Promise<void> {
    this.#readMs = this.#clock.monotonicMs();
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const pairs = await Promise.all(
      Object.entries(this.#options.pairs).map(async ([pair, paths]) => ({ pair, ...(await judge(paths())) })),
    );
    this.#found = {
      expiries: pairs.flatMap(({ pair, expiresAt }) => (expiresAt ? [{ pair, expiresAt }] : [])),
      problems: pairs.flatMap(({ pair, why }) => (why ? [{ pair, why }] : [])),
    };
  }
}

/** What the agent's servers go by now. */
export interface InUse {
  readonly keyPair: Pick<ChangingValue<Pick<KeyPair, 'expiresAt'>>, 'current'>;
  readonly authorities: Pick<ChangingValue<Authorities>, 'current'>;
}

/** Of its servers the pair that is in use, which need not be the one in the files; of the authorities the last one to end. */
export function endsOf({ keyPair, authorities }: InUse, onDisk: readonly Expiry[]): readonly Expiry[] {
  const served = keyPair.current;
  const ends = (authorities.current?.certificates ?? []).map(({ validTo }) => new Date(validTo).getTime());
  return [
    ...(served ? [{ pair: 'server', expiresAt: served.expiresAt }] : []),
    ...onDisk.filter(({ pair }) => !served || pair !== 'server'),
    ...(ends.length > 0 ? [{ pair: 'ca', expiresAt: new Date(Math.max(...ends)) }] : []),
  ];
}

interface Judged {
  readonly expiresAt?: Date;
  readonly why?: PairProblem['why'];
}

/** A certificate has its end also while its key is another one's. */
async function judge({ certFile, keyFile }: KeyPairPaths): Promise<Judged> {
  const [cert, key] = await Promise.all([textOf(certFile), textOf(keyFile)]);
  if (cert.kind === 'missing' && key.kind === 'missing') return {};
  if (cert.kind === 'missing') return { why: 'CertificateMissing' };
  if (cert.kind === 'unreadable') return { why: 'Unreadable' };
  const expiresAt = endOf(cert.text);
  if (!expiresAt) return { why: 'BadCertificate' };
  if (key.kind !== 'text') return { expiresAt, why: key.kind === 'missing' ? 'KeyMissing' : 'Unreadable' };
  try {
    readKeyPair(cert.text, key.text);
    return { expiresAt };
  } catch (error) {
    return { expiresAt, why: errorCode(error) === 'MISMATCH' ? 'KeyMismatch' : 'BadKey' };
  }
}

function endOf(text: string): Date | undefined {
  try {
    const expiresAt = new Date(new X509Certificate(text).validTo);
    return Number.isNaN(expiresAt.getTime()) ? undefined : expiresAt;
  } catch {
    return undefined;
  }
}

type FileText =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'missing' }
  | { readonly kind: 'unreadable' };

/** A named pipe in the place of a file must not hold it up. */
async function textOf(file: string): Promise<FileText> {
  try {
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const found = await handle.stat();
      if (!found.isFile() || found.size > maxBytes) return { kind: 'unreadable' };
      return { kind: 'text', text: await handle.readFile('utf8') };
    } finally {
      await handle.close();
    }
  } catch (error) {
    return { kind: ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '') ? 'missing' : 'unreadable' };
  }
}
