import { X509Certificate } from 'node:crypto';
import { errorMessage, type Logger } from '../base/index.ts';
import { type ChangingValue, SettableValue } from './changing-value.ts';
import { TlsInputError } from './errors.ts';

/** Certificates that may have signed a peer's; several while they are exchanged. */
export interface Authorities {
  readonly certificates: readonly X509Certificate[];
  /** Each one as PEM. */
  readonly pems: readonly string[];
}

/** A ConfigMap holds no more. */
const maxBytes = 1024 * 1024;
const [begin, end] = ['-----BEGIN CERTIFICATE-----', '-----END CERTIFICATE-----'];

/** Other kinds of PEM blocks, and words between them, are skipped. Throws TlsInputError when one cannot be read or none is there. */
export function readAuthorities(text: string): Authorities {
  if (text.length > maxBytes) throw new TlsInputError('BAD_CERTIFICATE', `the bundle has ${text.length} bytes`);
  const found = new Map<string, X509Certificate>();
  for (const pem of blocksOf(text)) {
    const certificate = readOne(pem, found.size + 1);
    found.set(certificate.fingerprint256, certificate);
  }
  if (found.size === 0) throw new TlsInputError('BAD_CERTIFICATE', 'the bundle has no certificate');
  const certificates = [...found.values()];
  return { certificates, pems: certificates.map((certificate) => certificate.toString()) };
}

function* blocksOf(text: string): Generator<string> {
  for (let start = text.indexOf(begin); start >= 0; ) {
    const stop = text.indexOf(end, start);
    // A torn one must not look like one that was taken out.
    if (stop < 0) throw new TlsInputError('BAD_CERTIFICATE', 'a certificate of the bundle has no end');
    yield text.slice(start, stop + end.length);
    start = text.indexOf(begin, stop);
  }
}

/**
 * The authorities of a text that changes. What cannot be read is logged once, and the last good ones stay (pkg/util/tls/ca-
 * manager.go).
 */
export class FollowedAuthorities implements ChangingValue<Authorities> {
  readonly #value = new SettableValue<Authorities>(undefined, isSame);
  readonly #log: Logger;
  readonly #end: () => void;
  #problem: string | undefined;

  constructor(text: ChangingValue<string>, { log }: { readonly log: Logger }) {
    this.#log = log;
    this.#end = text.onChange(() => this.#read(text.current));
    this.#read(text.current);
  }

  get current(): Authorities | undefined {
    return this.#value.current;
  }

  onChange(listener: () => void): () => void {
    return this.#value.onChange(listener);
  }

  stop(): void {
    this.#end();
  }

  #read(text: string | undefined): void {
    if (text === undefined) return;
    try {
      const read = readAuthorities(text);
      this.#problem = undefined;
      this.#value.set(read);
    } catch (error) {
      const reason = errorMessage(error);
      if (reason === this.#problem) return;
      this.#problem = reason;
      const kept = this.current?.certificates.length ?? 0;
      this.#log.warn({ reason, kept }, 'the bundle of authorities cannot be used; what was good before is kept');
    }
  }
}

function readOne(pem: string, number: number): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    const text = `certificate ${number} of the bundle cannot be read: ${errorMessage(cause)}`;
    throw new TlsInputError('BAD_CERTIFICATE', text, { cause });
  }
}

function isSame(a: Authorities, b: Authorities): boolean {
  return a.pems.length === b.pems.length && a.pems.every((pem) => b.pems.includes(pem));
}
