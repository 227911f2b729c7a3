import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { backoffDelayMs, type Clock, sleep, systemClock } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { ConfinedFailure, isNoSpace, runConfined } from './confined.ts';
import { roomIn } from './work-directory.ts';

export interface Download {
  /** http or https. */
  readonly url: string;
  /** PEM of further authorities. */
  readonly authorities?: string;
  readonly user?: { readonly name: string; readonly password: string };
  /** `Name: value` */
  readonly headers?: readonly string[];
  /** More is refused; more than there is room for waits for that. */
  readonly maxBytes: number;
}

export interface DownloadDeps {
  /** From 0 to 1; of a server that does not say how much it sends, nothing is known. */
  readonly onProgress?: (share: number) => void;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
}

const name = 'download';
const headersFile = 'headers';
const authoritiesFile = 'authorities.pem';
/** One line of a request (RFC 9110, 5.5 and 5.6.2). curl takes what begins with `@` for a file of lines, and would read it. */
const headerLine = /^[!#$%&'*+.^_`|~\dA-Za-z-]{1,256}:[^\r\n\0]{0,65536}$/;
/** Where Debian has those of the system. */
const systemAuthorities = '/etc/ssl/certs/ca-certificates.crt';
const maxRedirects = 10;
const tries = 5;
const backoff = { baseMs: 500, maxMs: 10_000 };
const progressMs = 500;
const mib = 2 ** 20;
const limits = { memoryBytes: 2 ** 30, cpuSeconds: 24 * 3_600, timeoutMs: 24 * 3_600_000 };

/** curl's exit codes (EXIT CODES in its manual). */
const fatal: Readonly<Record<number, string>> = {
  1: 'names a protocol that is not taken: use http or https',
  3: 'is no address: it has to be a URL of http or https',
  22: 'was not found, or not given, by the server',
  47: `leads to more than ${maxRedirects} other addresses, one after the other`,
  60: 'is of a server whose certificate nobody vouches for: give its authority (certConfigMap; --ca-file of the command)',
};
const passing: Readonly<Record<number, string>> = {
  5: 'the proxy is not known',
  6: 'the host name is not known',
  7: 'the server does not answer',
  18: 'the connection broke off',
  28: 'nothing came for a while',
  35: 'TLS could not be agreed upon',
  52: 'the server said nothing',
  55: 'the connection broke off',
  56: 'the connection broke off',
  92: 'the connection broke off',
};
/** The server does not begin in the middle, or the file is another one by now. */
const noRange = 33;

/**
 * Fetches a file into the work directory, as curl does it there with few rights, and gives its name. A connection that breaks is taken up where
 * it was if the server can do so and the file is the same one, and begun anew otherwise, a few times. Rejects with NodeError:
 * DOWNLOAD_REFUSED, DOWNLOAD_FAILED, NO_SPACE, PROGRAM_MISSING, with the address, and without what is secret in it.
 */
export async function download(dir: string, wish: Download, deps: DownloadDeps): Promise<string> {
  const { signal, clock = systemClock } = deps;
  const shown = shownUrl(wish.url);
  if (wish.headers?.some((header) => !headerLine.test(header))) {
    throw new NodeError('DOWNLOAD_REFUSED', `${shown} is asked for with a header that is no line "Name: value"`);
  }
  if (wish.authorities !== undefined) await writeAuthorities(dir, wish.authorities);
  for (let attempt = 1; ; attempt++) {
    const roomBytes = await roomIn(dir);
    try {
      await fetchOnce(dir, { ...wish, maxBytes: Math.min(wish.maxBytes, roomBytes) }, deps);
      return name;
    } catch (error) {
      const failure = await failureOf(error, { dir, shown, maxBytes: wish.maxBytes, roomBytes });
      if (failure.code !== 'DOWNLOAD_FAILED' || attempt >= tries) throw failure;
      await sleep(backoffDelayMs(attempt, backoff), signal, clock);
    }
  }
}

/** By what the server announced (CURLE_FILESIZE_EXCEEDED), or by what came. */
function isTooLarge(error: unknown): boolean {
  return error instanceof ConfinedFailure && (error.exitCode === 63 || error.signal === 'SIGXFSZ');
}

/** An address that may be shown and logged: without user and password, and without a query, in which tokens are. */
export function shownUrl(text: string): string {
  try {
    const { protocol, host, pathname, search } = new URL(text);
    return `${protocol}//${host}${pathname}${search ? '?…' : ''}`;
  } catch {
    return JSON.stringify(text.slice(0, 100));
  }
}

async function writeAuthorities(dir: string, pem: string): Promise<void> {
  const usual = await readFile(systemAuthorities, 'utf8').catch(() => '');
  await writeFile(path.join(dir, authoritiesFile), `${usual}\n${pem}\n`, { mode: 0o644 });
}

async function fetchOnce(dir: string, wish: Download, { onProgress, signal }: DownloadDeps): Promise<void> {
  const sameFile = await validatorOf(dir);
  const file = path.join(dir, name);
  if (sameFile === undefined) await rm(file, { force: true });
  const ended = new AbortController();
  const watching = onProgress && watchProgress(dir, onProgress, ended.signal);
  try {
    await runConfined(['curl', '--config', '-'], {
      ...{ dir, signal, network: true },
      limits: { ...limits, fileBytes: wish.maxBytes + mib },
      input: configOf(wish, sameFile),
    });
  } finally {
    ended.abort();
    await watching;
  }
}

/** On standard input: what is on a command line everybody can read. */
function configOf({ url, authorities, user, headers = [], maxBytes }: Download, sameFile: string | undefined): string {
  const isSecure = url.toLowerCase().startsWith('https:');
  const flags = ['globoff', 'fail', 'location', 'silent', 'show-error'];
  const values: [string, string | number][] = [
    ['url', url],
    ['output', name],
    ['dump-header', headersFile],
    ['proto', '=http,https'],
    ['proto-redir', isSecure ? '=https' : '=http,https'],
    ['max-redirs', maxRedirects],
    ['max-filesize', maxBytes],
    ['connect-timeout', 30],
    ['speed-limit', 1],
    ['speed-time', 60],
    ['user-agent', 'virt-node'],
    ...headers.map((header): [string, string] => ['header', header]),
  ];
  if (authorities !== undefined) values.push(['cacert', authoritiesFile]);
  if (user) values.push(['user', `${user.name}:${user.password}`]);
  if (sameFile !== undefined) values.push(['continue-at', '-'], ['header', `If-Range: ${sameFile}`]);
  const quoted = values.map(([key, value]) => `${key} = ${quote(String(value))}`);
  return `${[...flags, ...quoted].join('\n')}\n`;
}

function quote(value: string): string {
  const escaped = value.replaceAll('\\', '\\\\').replaceAll('"', '\\"');
  return `"${escaped.replaceAll('\n', '\\n').replaceAll('\r', '\\r').replaceAll('\t', '\\t')}"`;
}

interface Answer {
  /** Of the header lines of the last answer, by their names in small letters. */
  readonly headers: ReadonlyMap<string, string>;
  readonly status: number;
}

async function lastAnswer(dir: string): Promise<Answer | undefined> {
  const text = await readFile(path.join(dir, headersFile), 'utf8').catch(() => '');
  const block =
    text
      .trimEnd()
      .split(/\r?\n\r?\n/)
      .at(-1) ?? '';
  const [first = '', ...lines] = block.split(/\r?\n/);
  const status = Number(first.split(' ')[1]);
  if (!first.startsWith('HTTP/') || !Number.isInteger(status)) return undefined;
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  return { status, headers: new Map(headers) };
}

/** By which the server knows whether the file is still the one whose beginning is there. */
async function validatorOf(dir: string): Promise<string | undefined> {
  const begun = await stat(path.join(dir, name)).catch(() => undefined);
  const answer = await lastAnswer(dir);
  if (!begun?.size || !answer || (answer.status !== 200 && answer.status !== 206)) return undefined;
  if (answer.headers.get('accept-ranges')?.toLowerCase() !== 'bytes' && answer.status !== 206) return undefined;
  const tag = answer.headers.get('etag');
  return tag !== undefined && !tag.startsWith('W/') ? tag : answer.headers.get('last-modified');
}

async function watchProgress(dir: string, hear: (share: number) => void, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    await sleep(progressMs, ended).catch(() => undefined);
    const answer = await lastAnswer(dir);
    const [, whole] = /\/(\d+)$/.exec(answer?.headers.get('content-range') ?? '') ?? [];
    const totalBytes = Number(whole ?? answer?.headers.get('content-length') ?? 0);
    const there = await stat(path.join(dir, name)).catch(() => undefined);
    const isContent = answer?.status === 200 || answer?.status === 206;
    if (isContent && there && totalBytes > 0) hear(Math.min(1, there.size / totalBytes));
  }
}

interface Tried {
  readonly dir: string;
  readonly shown: string;
  readonly maxBytes: number;
  readonly roomBytes: number;
}

async function failureOf(error: unknown, { dir, shown, maxBytes, roomBytes }: Tried): Promise<NodeError> {
  if (isNoSpace(error) || (isTooLarge(error) && roomBytes < maxBytes)) {
    const text = `${shown}: the disk of this machine is full: free some space`;
    return new NodeError('NO_SPACE', text, { cause: error });
  }
  if (!(error instanceof ConfinedFailure)) throw error;
  const { exitCode = -1, words } = error;
  if (isTooLarge(error)) {
    const text = `${shown} is larger than ${maxBytes} bytes, which are the most that it may be`;
    return new NodeError('DOWNLOAD_REFUSED', text, { cause: error });
  }
  if (exitCode === noRange) await rm(path.join(dir, name), { force: true });
  const status = exitCode === 22 ? (await lastAnswer(dir))?.status : undefined;
  const isForNow = status !== undefined && (status >= 500 || status === 408 || status === 429);
  const why = fatal[exitCode];
  if (why !== undefined && !isForNow) {
    const advice =
      status === 401 || status === 403 ? ': give user and password (secretRef; user:password@ in the URL)' : '';
    const answered = status === undefined ? '' : ` (HTTP ${status})`;
    return new NodeError('DOWNLOAD_REFUSED', `${shown} ${why}${answered}${advice}`, { cause: error });
  }
  const reason = isForNow ? `the server answered HTTP ${status}` : (passing[exitCode] ?? words);
  return new NodeError('DOWNLOAD_FAILED', `${shown} could not be fetched: ${reason}`, { cause: error });
}
