import { type ChildProcess, spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { KubeObject } from '../src/api/index.ts';
import { issue, makeAuthority } from '../src/certificates/index.ts';
import type { KubeClient } from '../src/kube/index.ts';
import { type Activity, activity, residentMb } from './process-figures.ts';
import { endBy, waitFor } from './waiting.ts';

/** A program with virt-controller's flags, whoever made it. */
export interface ControllerCommand {
  readonly name: string;
  /** Split at blanks; the flags follow. */
  readonly command: string;
}

export interface ControllerPlace {
  readonly dir: string;
  readonly kubeconfig: string;
  readonly admin: KubeClient;
}

const leases = { group: 'coordination.k8s.io', version: 'v1', resource: 'leases', kind: 'Lease', namespaced: true };
const lease = { namespace: 'kubevirt', name: 'virt-controller' };
const firstPort = 28_300;
/** A lease that nobody gave back is waited for, and lists of many objects. */
const leadLimitMs = 120_000;

/** Who leads; empty: nobody. */
export async function leaseHolder(admin: KubeClient): Promise<string> {
  const found = await admin.list<KubeObject & { spec: { holderIdentity?: string } }>(leases, {
    namespace: lease.namespace,
    fieldSelector: `metadata.name=${lease.name}`,
  });
  return found.items[0]?.spec.holderIdentity ?? '';
}

/** One replica of a controller: start, stop, start again. */
export class ControllerUnderTest {
  /** Of the replica in the lease: what it takes for its pod's name, which is that of its host. */
  readonly identity: string;
  readonly #program: ControllerCommand;
  readonly #place: ControllerPlace;
  readonly #port: number;
  readonly #logFile: string;
  #child: ChildProcess | undefined;

  constructor(program: ControllerCommand, place: ControllerPlace, number: number) {
    this.identity = `replica-${number}`;
    this.#program = program;
    this.#place = place;
    this.#port = firstPort + number;
    mkdirSync(place.dir, { recursive: true });
    this.#logFile = path.join(place.dir, `${this.identity}.log`);
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Only starts it: see `leads`. */
  async start(): Promise<void> {
    const { certFile, keyFile } = await keyPair(this.#place.dir);
    const log = openSync(this.#logFile, 'a');
    const flags = [
      ...['--kubeconfig', this.#place.kubeconfig, '--listen', '127.0.0.1', '--port', `${this.#port}`],
      ...['--prom-cert-file', certFile, '--prom-key-file', keyFile, '--launcher-image', 'virt-launcher', '-v', '2'],
    ];
    const named = ['--uts', 'sh', '-ec', 'hostname "$POD_NAME"; exec "$@"', 'sh'];
    const env = { ...process.env, POD_NAME: this.identity };
    const command = [...this.#program.command.split(/\s+/), ...flags];
    this.#child = spawn('unshare', [...named, ...command], { env, stdio: ['ignore', log, log] });
  }

  async leads(): Promise<void> {
    await waitFor(`${this.#program.name} leads as ${this.identity}`, leadLimitMs, async () => {
      this.#mustRun();
      return (await leaseHolder(this.#place.admin)) === this.identity || undefined;
    });
  }

  /** Its caches are filled, as its server says. */
  async standsBy(): Promise<void> {
    await waitFor(`${this.#program.name} answers as ${this.identity}`, leadLimitMs, async () => {
      this.#mustRun();
      return isListening(this.#port) || undefined;
    });
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    if (this.#child) await endBy(this.#child, signal);
  }

  residentMb(): number {
    return residentMb(this.pid);
  }

  /** The most that it ever had. */
  peakMb(): number {
    return residentMb(this.pid, 'VmHWM');
  }

  /** CPU time and wake-ups of all its threads that live. */
  activity(): Activity {
    return activity(this.pid);
  }

  logTail(lines = 20): string {
    return this.logLines(() => true)
      .slice(-lines)
      .join('\n');
  }

  logLines(isMeant: (line: string) => boolean): string[] {
    return readFileSync(this.#logFile, 'utf8').split('\n').filter(isMeant);
  }

  saveLog(file: string): void {
    mkdirSync(path.dirname(file), { recursive: true });
    copyFileSync(this.#logFile, file);
  }

  #mustRun(): void {
    const code = this.#child?.exitCode ?? null;
    if (code !== null) throw new Error(`${this.#program.name} ended with ${code}:\n${this.logTail()}`);
  }
}

/** In a directory of its own, in which nothing else changes: it may be watched. */
async function keyPair(parent: string): Promise<{ certFile: string; keyFile: string }> {
  const dir = path.join(parent, 'certificates');
  mkdirSync(dir, { recursive: true });
  const [certFile, keyFile] = [path.join(dir, 'tls.crt'), path.join(dir, 'tls.key')];
  const authority = await makeAuthority({ commonName: 'kubevirt.io', days: 1 });
  const pair = await issue(authority, { commonName: 'virt-controller', usage: 'serverAuth', days: 1 });
  writeFileSync(keyFile, pair.key, { mode: 0o600 });
  writeFileSync(certFile, pair.cert);
  return { certFile, keyFile };
}

/** In this network namespace, which is the program's, too. */
function isListening(port: number): boolean {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')} `;
  const listening = '0A';
  return ['/proc/net/tcp', '/proc/net/tcp6']
    .flatMap((file) => readFileSync(file, 'latin1').split('\n'))
    .some((line) => line.slice(0, 90).includes(wanted) && line.trim().split(/\s+/)[3] === listening);
}
