import { spawn } from 'node:child_process';
import { access, mkdir, readdir, rm } from 'node:fs/promises';
import { constants } from 'node:os';
import path from 'node:path';
import { addAbortSignal, type Duplex, type Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { VirtualMachineInstance } from '../../api/index.ts';
import { errorCode, errorMessage, sleep } from '../../base/index.ts';
import { findSystemProgram } from '../../host/index.ts';
import { NodeError } from '../errors.ts';
import type { NodePaths } from '../paths.ts';
import { readSshPublicKey, sshKeyFile } from '../ssh-key.ts';
import { connectToNode, findVmi, namespaceFlag } from './find-vmi.ts';
import { openGuestPort } from './guest-port.ts';
import { bannerSeconds, type ScpFile, sshOptions } from './ssh-arguments.ts';
import type { VmName } from './vm-agent.ts';

export interface SshWish extends VmName {
  readonly user: string;
  /** File of a private key in place of the node's own. */
  readonly identity: string | undefined;
  /** In the guest. */
  readonly port: number;
}

/** What the OpenSSH client is started with. */
export interface SshCall {
  readonly program: string;
  readonly args: readonly string[];
}

export interface SshDeps {
  /** This program with its arguments up to the command. */
  readonly self: readonly string[];
  /** Lines for a person. */
  readonly report: (line: string) => void;
  /** How long a server may take to say what it is. */
  readonly bannerMs?: number;
}

/** A guest that has just been started may still be bringing its server up: a Debian guest under emulation takes more than a minute. */
const freshMs = 120_000;
const againMs = 500;
const maxBannerBytes = 16 * 1024;

/**
 * How to log in: once a server in the guest has answered. Rejects with NodeError, whose message says what to do: PROGRAM_MISSING, NOT_FOUND, GUEST_PORT and
 * what the node's API has against it.
 */
export async function sshCall(
  paths: NodePaths,
  wish: SshWish & { readonly remote: readonly string[] },
  deps: SshDeps,
  signal: AbortSignal,
): Promise<SshCall> {
  const { program, options } = await reach('ssh', paths, wish, deps, signal);
  const port = ['-p', String(wish.port)];
  return { program, args: [...options, ...port, '-l', wish.user, '--', wish.name, ...wish.remote] };
}

/** The same for copies of files, from the guest or into it. */
export async function scpCall(
  paths: NodePaths,
  wish: SshWish & { readonly files: readonly ScpFile[]; readonly recursive: boolean },
  deps: SshDeps,
  signal: AbortSignal,
): Promise<SshCall> {
  const { program, options } = await reach('scp', paths, wish, deps, signal);
  const files = wish.files.map(({ inGuest, file }) => (inGuest ? `${wish.name}:${file}` : file));
  const recursive = wish.recursive ? ['-r'] : [];
  const own = ['-P', String(wish.port), '-o', `User=${wish.user}`];
  return { program, args: [...options, ...own, ...recursive, '--', ...files] };
}

async function reach(
  name: 'ssh' | 'scp',
  paths: NodePaths,
  wish: SshWish,
  deps: SshDeps,
  signal: AbortSignal,
): Promise<{ readonly program: string; readonly options: readonly string[] }> {
  const program = findSystemProgram(name);
  if (program === undefined) {
    throw new NodeError('PROGRAM_MISSING', `${name} is missing: apt-get install openssh-client`);
  }
  const client = await connectToNode(paths);
  const vmi = await findVmi(client, wish.namespace, wish.name).finally(() => client.close());
  const identity = wish.identity === undefined ? await ownIdentity(paths) : await givenIdentity(wish.identity);
  await untilServerAnswers(paths, wish, vmi, deps, signal);
  const knownHosts = await knownHostsOf(paths, wish, vmi.metadata.uid ?? '');
  const { stateDir } = paths;
  const proxy = [
    ...deps.self,
    'ssh-proxy',
    wish.name,
    ...['--namespace', wish.namespace],
    ...['--state-dir', stateDir],
  ];
  return {
    program,
    options: sshOptions({ proxy: [...proxy, '--port', String(wish.port)], identity, knownHosts, wish }),
  };
}

/** The client would pass over one that is not there, and say no more than that the key was refused. */
async function givenIdentity(file: string): Promise<string> {
  await access(file).catch((cause: unknown) => {
    throw new NodeError('NOT_FOUND', `--identity: ${file} cannot be read (${errorCode(cause)})`, { cause });
  });
  return path.resolve(file);
}

async function ownIdentity(paths: NodePaths): Promise<string> {
  if ((await readSshPublicKey(paths)) !== undefined) return sshKeyFile(paths);
  const advice = 'start the node again, which makes it, or give a key of your own with --identity';
  throw new NodeError('NOT_FOUND', `the node has no key pair in ${paths.sshDir}: ${advice}`);
}

/**
 * A file per start of a VM: a guest that lives in memory has other keys each time, and while it runs they must not change. The way to it is the node's, which
 * knows the VM's address without asking the guest.
 */
async function knownHostsOf(paths: NodePaths, { namespace, name }: VmName, uid: string): Promise<string> {
  const dir = knownHostsDir(paths);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const begin = `${namespace}_${name}_`;
  for (const other of await readdir(dir)) {
    if (other.startsWith(begin) && other !== `${begin}${uid}`) await rm(path.join(dir, other), { force: true });
  }
  return path.join(dir, `${begin}${uid}`);
}

function knownHostsDir({ sshDir }: NodePaths): string {
  return path.join(sshDir, 'known-hosts');
}

/** Rejects with what the last try said. */
async function untilServerAnswers(
  paths: NodePaths,
  wish: SshWish,
  vmi: VirtualMachineInstance,
  { report, bannerMs = bannerSeconds * 1000 }: SshDeps,
  signal: AbortSignal,
): Promise<void> {
  let endMs = runningSinceMs(vmi) + freshMs;
  let [wasStarting, isBooting] = [false, false];
  for (let isSaid = false; ; isSaid = true) {
    const problem = await serverProblem(paths, wish, bannerMs, signal);
    signal.throwIfAborted();
    if (!problem) return;
    // Only now the guest begins to boot; one that is started again and again is not waited for without end.
    if (wasStarting && !isBooting && problem.code === 'GUEST_PORT') {
      isBooting = true;
      endMs = Date.now() + freshMs;
    }
    wasStarting = problem.code === 'AGENT_REFUSED';
    if (Date.now() > endMs || !mayCome(problem)) throw withAdvice(problem, wish);
    if (!isSaid) report(waitingText(wish, vmi));
    await sleep(againMs, signal);
  }
}

/** Of one that may never run it is said where the reason is. */
export function waitingText({ namespace, name }: VmName, { status }: VirtualMachineInstance): string {
  const awaited = `waiting for the SSH server of ${namespace}/${name}`;
  if (status?.phase === 'Running') return awaited;
  return `${awaited}, which is ${status?.phase || 'Pending'}: virt-node explain ${name}${namespaceFlag(namespace)} says what it waits for`;
}

/** 0 for one that has not told, or that has ended. */
function runningSinceMs({ status }: VirtualMachineInstance): number {
  const phase = status?.phase;
  const isToCome = phase !== 'Running' && phase !== 'Succeeded' && phase !== 'Failed';
  if (isToCome) return Date.now();
  const times = status?.phaseTransitionTimestamps ?? [];
  return Date.parse(times.find((each) => each.phase === 'Running')?.phaseTransitionTimestamp ?? '') || 0;
}

/** While a VM starts its launcher has no address, and its guest no server. */
function mayCome({ code, message }: NodeError): boolean {
  return code === 'GUEST_PORT' || (code === 'AGENT_REFUSED' && /not running|no address/.test(message));
}

function consoleOf({ namespace, name }: VmName): string {
  return `virt-node console ${name}${namespaceFlag(namespace)}`;
}

/** What there is to do about it goes with each. */
function withAdvice(problem: NodeError, wish: SshWish): NodeError {
  if (problem.code !== 'GUEST_PORT') return problem;
  return new NodeError('GUEST_PORT', `${problem.message}: ${serverAdvice(problem, wish)} See: ${consoleOf(wish)}`, {
    cause: problem,
  });
}

/** What there is to look at when no SSH server answers; it goes behind the words of the problem. */
export function serverAdvice(problem: NodeError, { port }: Pick<SshWish, 'port'>): string {
  if (problem instanceof QuietServer) return 'is the guest busy, does it stand still, or are too many logging in?';
  // Nobody answers at the address itself, a server or none.
  if (/EHOSTUNREACH|no answer in/.test(problem.message)) {
    return 'does the guest still boot, or has it not taken its address (by DHCP on its first network card)?';
  }
  return `is an SSH server installed in the guest, and does it listen on port ${port}?`;
}

/** Something listens, and may be an SSH server that had no time. */
class QuietServer extends NodeError {
  constructor(port: number, what: string) {
    super('GUEST_PORT', `what listens on port ${port} of the guest ${what}`);
  }
}

async function serverProblem(
  paths: NodePaths,
  wish: SshWish,
  bannerMs: number,
  signal: AbortSignal,
): Promise<NodeError | undefined> {
  const { port } = wish;
  let late: AbortSignal | undefined;
  try {
    // The way there has deadlines of its own.
    const stream = await openGuestPort(paths, wish, port, signal);
    late = AbortSignal.timeout(bannerMs);
    const heard = await bannerOf(addAbortSignal(late, stream)).finally(() => stream.destroy());
    if (isBanner(heard)) return undefined;
    if (heard === '') return new QuietServer(port, 'ended the connection without a word');
    return new NodeError('GUEST_PORT', `what listens on port ${port} of the guest is no SSH server`);
  } catch (error) {
    if (late?.aborted) return new QuietServer(port, `has not said what it is within ${bannerMs / 1000} s`);
    if (error instanceof NodeError) return error;
    return new NodeError('GUEST_PORT', `port ${port} of the guest does not answer: ${errorMessage(error)}`);
  }
}

/** RFC 4253, 4.2: a server says what it is first, after any other lines. What was heard until then, or until the end. */
async function bannerOf(stream: Duplex): Promise<string> {
  let heard = '';
  for await (const piece of stream) {
    heard += String(piece);
    if (isBanner(heard) || heard.length > maxBannerBytes) break;
  }
  return heard;
}

function isBanner(heard: string): boolean {
  return /^SSH-/m.test(heard);
}

/** What to do about what OpenSSH said: a key that the guest does not take, another host key than before, a server that says nothing. Undefined for anything else. */
export function sshAdvice(paths: NodePaths, wish: SshWish, said: string): string | undefined {
  const { namespace, name, user } = wish;
  if (said.includes('HOST IDENTIFICATION HAS CHANGED')) {
    const file = path.join(knownHostsDir(paths), `${namespace}_${name}_*`);
    return `the guest shows another host key than at the first login since its start. If that is right, remove ${file}`;
  }
  if (said.includes('timed out during banner exchange')) {
    return `the SSH server of the guest took the connection and said nothing: is the guest busy, or does it stand still? See: ${consoleOf(wish)}`;
  }
  if (!said.includes('Permission denied (')) return undefined;
  const refused = `for the user ${user}: choose another one with --user`;
  if (wish.identity !== undefined) return `the guest does not take ${wish.identity} ${refused}`;
  const ways = `put ${sshKeyFile(paths)}.pub into its authorized_keys, name the secret virt-node-ssh-key in accessCredentials of the VM`;
  return `the guest does not take the node's key ${refused}, ${ways}, or choose another key with --identity`;
}

/** What the OpenSSH client talks to the guest through. Resolves when either side ends. */
export async function joinSshProxy(
  paths: NodePaths,
  wish: VmName & { readonly port: number },
  ends: { readonly input: Readable; readonly output: Writable },
  signal: AbortSignal,
): Promise<void> {
  const stream = await openGuestPort(paths, wish, wish.port, signal);
  // Either side just goes away; the other one is told by the end of its stream.
  await Promise.race([pipeline(ends.input, stream), pipeline(stream, ends.output)]).catch(() => undefined);
  stream.destroy();
  ends.input.destroy();
}

/** More than OpenSSH says of one login. */
const keptBytes = 8 * 1024;

/**
 * Runs the OpenSSH client in this terminal. Gives its exit status, as a shell has it, and the end of what it said on standard error, which has been passed
 * on. `leave` ends it.
 */
export function runClient(
  { program, args }: SshCall,
  errors: Writable,
  leave: AbortSignal,
): Promise<{ readonly code: number; readonly said: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...args], { stdio: ['inherit', 'inherit', 'pipe'] });
    let said = '';
    const onLeave = () => child.kill('SIGTERM');
    leave.addEventListener('abort', onLeave, { once: true });
    child.stderr.on('data', (piece: Buffer) => {
      said = `${said}${piece}`.slice(-keptBytes);
      errors.write(piece);
    });
    child.once('error', reject);
    child.once('close', (code, signal) =>
      resolve({ code: code ?? 128 + (signal ? constants.signals[signal] : 0), said }),
    );
  });
}
