import { X509Certificate } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Clock } from '../../base/index.ts';

export interface CertificateExpiryOptions {
  /** What the pair is called → its certificate's file. */
  readonly certFiles: Readonly<Record<string, string>>;
}

export interface Expiry {
  readonly pair: string;
  readonly expiresAt: Date;
}

const freshMs = 60_000;
const maxBytes = 1024 * 1024;

/** When the agent's certificates expire: read again at most once a minute, and only while somebody asks. */
export class CertificateExpiry {
  readonly #options: CertificateExpiryOptions;
  readonly #clock: Clock;
  #known: readonly Expiry[] = [];
  #readMs = Number.NEGATIVE_INFINITY;

  constructor(options: CertificateExpiryOptions, deps: { readonly clock: Clock }) {
    this.#options = options;
    this.#clock = deps.clock;
  }

  /** As last read; looks again in the background. */
  get current(): readonly Expiry[] {
    if (this.#clock.monotonicMs() - this.#readMs >= freshMs) void this.refresh();
    return this.#known;
  }

  /** Those that cannot be read are left out; most are optional. Never rejects. */
  async refresh(): Promise<void> {
    this.#readMs = this.#clock.monotonicMs();
    const found = await Promise.all(
      Object.entries(this.#options.certFiles).map(async ([pair, file]) => {
        const expiresAt = await expiryOf(file).catch(() => undefined);
        return expiresAt === undefined ? [] : [{ pair, expiresAt }];
      }),
    );
    this.#known = found.flat();
  }
}

/** A named pipe in the place of a file must not hold it up. */
async function expiryOf(file: string): Promise<Date | undefined> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const found = await handle.stat();
    if (!found.isFile() || found.size > maxBytes) return undefined;
    const expiresAt = new Date(new X509Certificate(await handle.readFile('utf8')).validTo);
    return Number.isNaN(expiresAt.getTime()) ? undefined : expiresAt;
  } finally {
    await handle.close();
  }
}
