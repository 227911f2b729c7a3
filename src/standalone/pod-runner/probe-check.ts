import http from 'node:http';
import https from 'node:https';
import { connect } from 'node:net';
import type { Readable } from 'node:stream';
import { errorMessage } from '../../base/index.ts';
import type { ProbeCheck } from './probe-spec.ts';
import type { Sandboxes } from './sandbox.ts';
import { endCommand } from './sandbox-exec.ts';

export interface ProbeOutcome {
  readonly isGood: boolean;
  /** For people, when it is not. */
  readonly message: string;
}

export interface CheckDeps {
  readonly sandboxes: Pick<Sandboxes, 'exec'>;
  /** What runs instead of a command of the launcher image. */
  readonly programs: Readonly<Record<string, readonly string[]>>;
}

export interface CheckTarget {
  readonly uid: string;
  /** Of the pod. */
  readonly address: string;
}

type Check<Kind extends ProbeCheck['kind']> = Extract<ProbeCheck, { kind: Kind }>;

/** Of an answer; the rest is not read. */
const maxOutputBytes = 10 * 1024;
const maxRedirects = 10;
const execPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const good: ProbeOutcome = { isGood: true, message: '' };

/** Asks once, as a kubelet does (kubernetes' pkg/probe). Never rejects; is over when `signal` fires. */
export async function checkOnce(
  check: ProbeCheck,
  target: CheckTarget,
  signal: AbortSignal,
  deps: CheckDeps,
): Promise<ProbeOutcome> {
  try {
    switch (check.kind) {
      case 'tcpSocket':
        return await checkTcp(check, target, signal);
      case 'httpGet':
        return await checkHttp(check, target, signal);
      case 'exec':
        return await checkExec(check, target, signal, deps);
    }
  } catch (error) {
    return bad(signal.aborted ? 'there was no answer in time' : errorMessage(error));
  }
}

function bad(message: string): ProbeOutcome {
  return { isGood: false, message };
}

function checkTcp(
  { host, port }: Check<'tcpSocket'>,
  { address }: CheckTarget,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: host ?? address, port, signal });
    socket.once('connect', () => {
      socket.destroy();
      resolve(good);
    });
    socket.on('error', reject);
  });
}

async function checkHttp(
  check: Check<'httpGet'>,
  { address }: CheckTarget,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  const host = check.host ?? address;
  let url = new URL(`${check.scheme}://${host.includes(':') ? `[${host}]` : host}:${check.port}${check.path}`);
  for (let redirects = 0; ; redirects++) {
    const { statusCode = 0, location } = await get(url, check.headers, signal);
    if (statusCode < 200 || statusCode >= 400) return bad(`HTTP probe failed with statuscode: ${statusCode}`);
    if (statusCode < 300 || location === undefined) return good;
    const next = new URL(location, url);
    // Another host says nothing of this one.
    if (next.hostname !== url.hostname) return good;
    if (redirects >= maxRedirects) return bad(`stopped after ${maxRedirects} redirects`);
    url = next;
  }
}

interface HttpAnswer {
  readonly statusCode: number | undefined;
  readonly location: string | undefined;
}

/** The certificate of a guest proves nothing to a node, and is not looked at. */
function get(url: URL, given: Check<'httpGet'>['headers'], signal: AbortSignal): Promise<HttpAnswer> {
  const headers = { 'user-agent': 'kube-probe/1.34', accept: '*/*', ...Object.fromEntries(given) };
  const options = { headers, signal, agent: false, rejectUnauthorized: false } as const;
  return new Promise((resolve, reject) => {
    const request = url.protocol === 'https:' ? https.get(url, options) : http.get(url, options);
    request.on('error', reject);
    request.once('response', (response) => {
      resolve({ statusCode: response.statusCode, location: response.headers.location });
      response.destroy();
    });
  });
}

async function checkExec(
  { command }: Check<'exec'>,
  { uid }: CheckTarget,
  signal: AbortSignal,
  { sandboxes, programs }: CheckDeps,
): Promise<ProbeOutcome> {
  const [program = '', ...args] = command;
  const words = Object.hasOwn(programs, program) ? programs[program] : undefined;
  const argv = [...(words ?? [program]), ...args];
  const child = await sandboxes.exec(uid, { argv, env: { PATH: execPath, HOME: '/root' }, stdio: 'pipes' });
  const onAbort = () => endCommand(child);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    const ended = new Promise<number | null>((resolve) => child.once('close', (status) => resolve(status)));
    const said = Promise.all([textOf(child.stdout), textOf(child.stderr)]);
    child.stdin?.on('error', () => undefined).end();
    const code = await ended;
    signal.throwIfAborted();
    if (code === 0) return good;
    return bad((await said).join('').trim() || `the command ended with ${code}`);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

async function textOf(output: Readable | null): Promise<string> {
  let text = '';
  output?.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(0, maxOutputBytes);
  });
  await new Promise<void>((resolve) => (output ? output.once('close', () => resolve()) : resolve()));
  return text;
}
