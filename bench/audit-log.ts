import { existsSync, readFileSync, statSync } from 'node:fs';

/** `verb resource`, or `verb resource/subresource` → how often it was asked for. */
export type RequestCounts = Readonly<Record<string, number>>;

interface AuditLine {
  readonly verb: string;
  readonly user?: { readonly username?: string };
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string };
  readonly responseStatus?: { readonly code?: number };
}

/** What a kube-apiserver notes of requests, watches not counted. */
export class AuditLog {
  readonly #file: string;
  #readBytes = 0;

  constructor(file: string) {
    this.#file = file;
  }

  /** Since the last call, by the name of the service account. */
  read(): ReadonlyMap<string, RequestCounts> {
    const counts = new Map<string, Record<string, number>>();
    for (const { verb, user, objectRef, responseStatus } of this.#lines()) {
      if (verb === 'watch') continue;
      const isRefused = (responseStatus?.code ?? 200) >= 400;
      const { resource = '?', subresource } = objectRef ?? {};
      const path = subresource === undefined ? resource : `${resource}/${subresource}`;
      const name = `${verb} ${path}${isRefused ? ` (${responseStatus?.code})` : ''}`;
      const account = user?.username?.split(':').at(-1) ?? '';
      const own = counts.get(account) ?? {};
      counts.set(account, { ...own, [name]: (own[name] ?? 0) + 1 });
    }
    return counts;
  }

  #lines(): AuditLine[] {
    if (!existsSync(this.#file)) return [];
    const end = statSync(this.#file).size;
    const text = readFileSync(this.#file).subarray(this.#readBytes, end).toString('utf8');
    // The last line may not be whole yet.
    const whole = text.slice(0, text.lastIndexOf('\n') + 1);
    this.#readBytes += Buffer.byteLength(whole);
    return whole
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  }
}
