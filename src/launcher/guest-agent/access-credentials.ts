import { createHash } from 'node:crypto';
import path from 'node:path';
import type { KubeVirtMetadata, VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger, systemClock } from '../../base/index.ts';
import { type DomainRef, DomainState } from '../../libvirt/index.ts';
import { type AccessCredential, accessCredentialsOf, credentialDirName } from '../domain/index.ts';
import { readMountedSecret } from '../mounted-secret.ts';
import type { Hypervisor } from '../ports.ts';
import { runAgentCommand } from './command.ts';
import type { GuestStore } from './store.ts';

export interface AccessCredentialsOptions {
  readonly domainName: string;
  /** Directory with a directory for each secret that is mounted in the pod. */
  readonly secretsDir: string;
}

export interface AccessCredentialsDeps {
  readonly hypervisor: Pick<
    Hypervisor,
    'lookup' | 'state' | 'agentCommand' | 'setAuthorizedSshKeys' | 'setUserPassword'
  >;
  readonly metadata: { updateMetadata(change: Pick<KubeVirtMetadata, 'AccessCredential'>): void };
  readonly guest: Pick<GuestStore, 'facts'>;
  readonly log: Logger;
  readonly clock?: Clock;
}

/** What users of the guest are to have, by their names. */
interface Wanted {
  readonly keys: ReadonlyMap<string, readonly string[]>;
  readonly passwords: ReadonlyMap<string, string>;
}

/** Changes within that time go into the guest together. */
const lookMs = 15_000;
/** A guest may have lost what it was given: it is given again, changed or not. */
const againMs = 5 * 60_000;

/**
 * Gives SSH keys and passwords of secrets to users of a running guest, by its agent, and again when a secret has changed, when the
 * agent has come back, and every five minutes (`pkg/virt-launcher/virtwrap/access-credentials`). What became of it is in the
 * domain's metadata, of which the node's agent makes the condition `AccessCredentialsSynchronized`.
 */
export class AccessCredentials {
  readonly #options: AccessCredentialsOptions;
  readonly #deps: AccessCredentialsDeps;
  readonly #clock: Clock;
  #credentials: readonly AccessCredential[] = [];
  /** Digest of what the guest was given, and when; undefined: it has to be given. */
  #given: { readonly digest: string; readonly atMs: number } | undefined;
  #cancel: (() => void) | undefined;
  /** Counts the times that a guest has lost what it was given, perhaps. */
  #losses = 0;
  #isLooking = false;
  #isStopped = false;

  constructor(options: AccessCredentialsOptions, deps: AccessCredentialsDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
  }

  /** The VMI of a domain that runs. The first one begins the watch; a VMI's credentials do not change. */
  noteVmi(vmi: VirtualMachineInstance): void {
    if (this.#credentials.length > 0) return;
    this.#credentials = accessCredentialsOf(vmi).filter(({ kind }) => kind !== 'cloud-init-keys');
    if (this.#credentials.length > 0) this.#lookIn(0);
  }

  /** Of a guest that has booted again, another disk may have been put in. */
  agentChanged(connected: boolean): void {
    if (!connected || this.#credentials.length === 0) return;
    this.#given = undefined;
    this.#losses++;
    this.#lookIn(0);
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }

  #lookIn(delayMs: number): void {
    this.#cancel?.();
    // A look that is under way is followed by another one at its end.
    if (this.#isStopped || this.#isLooking) return;
    this.#cancel = this.#clock.schedule(delayMs, () => {
      this.#isLooking = true;
      void this.#look().then((nextMs) => {
        this.#isLooking = false;
        this.#lookIn(nextMs);
      });
    });
  }

  /** Gives what has to be given; the time until the next look. */
  async #look(): Promise<number> {
    const losses = this.#losses;
    try {
      const domain = await this.#readyDomain();
      if (!domain) return lookMs;
      const wanted = await readWanted(this.#credentials, this.#options.secretsDir);
      const digest = digestOf(wanted);
      if (!this.#isDue(digest)) return lookMs;
      const problems = await this.#give(domain, wanted);
      if (problems.length > 0) throw new Error(problems.join('; '));
      this.#report(true, '');
      if (losses !== this.#losses) return 0;
      this.#given = { digest, atMs: this.#clock.monotonicMs() };
      return lookMs;
    } catch (error) {
      this.#given = undefined;
      this.#report(false, errorMessage(error));
      return lookMs;
    }
  }

  #isDue(digest: string): boolean {
    const { digest: given, atMs } = this.#given ?? { atMs: 0 };
    return given !== digest || this.#clock.monotonicMs() - atMs >= againMs;
  }

  /** A guest that is paused or frozen cannot answer: nothing is said about it until it goes on. */
  async #readyDomain(): Promise<DomainRef | undefined> {
    const { hypervisor, guest } = this.#deps;
    const domain = await hypervisor.lookup(this.#options.domainName);
    if (!domain || guest.facts.fsFreezeStatus === 'frozen') return undefined;
    const { state } = await hypervisor.state(domain);
    return state === DomainState.RUNNING || state === DomainState.BLOCKED ? domain : undefined;
  }

  /** What could not be given, in words. */
  async #give(domain: DomainRef, { keys, passwords }: Wanted): Promise<string[]> {
    const { hypervisor } = this.#deps;
    try {
      await runAgentCommand(hypervisor, domain, { execute: 'guest-ping' });
    } catch {
      return ['Guest agent is offline'];
    }
    const problems: string[] = [];
    const attempt = (what: string, work: Promise<void>) =>
      work.catch((error: unknown) => void problems.push(`${what}: ${errorMessage(error)}`));
    for (const [user, list] of keys) {
      await attempt(`SSH keys of user ${user} were not set`, hypervisor.setAuthorizedSshKeys(domain, user, list));
    }
    for (const [user, password] of passwords) {
      await attempt(`the password of user ${user} was not set`, hypervisor.setUserPassword(domain, user, password));
    }
    return problems;
  }

  #report(Succeeded: boolean, Message: string): void {
    if (this.#isStopped) return;
    if (!Succeeded) this.#deps.log.warn({ problem: Message }, 'access credentials are not in the guest');
    this.#deps.metadata.updateMetadata({ AccessCredential: { Succeeded, Message } });
  }
}

async function readWanted(credentials: readonly AccessCredential[], secretsDir: string): Promise<Wanted> {
  const keys = new Map<string, string[]>();
  const passwords = new Map<string, string>();
  for (const credential of credentials) {
    const secret = await readSecret(credential.secretName, secretsDir);
    const lines = [...secret.values()].flatMap((text) => trimmed(text.toString('utf8').split('\n')));
    if (credential.kind === 'agent-keys') {
      for (const user of credential.users) keys.set(user, [...(keys.get(user) ?? []), ...lines]);
    }
    if (credential.kind !== 'agent-passwords') continue;
    for (const [user, text] of secret) {
      const password = text.toString('utf8').trim();
      if (password !== '') passwords.set(user, password);
    }
  }
  return { keys, passwords };
}

async function readSecret(name: string, secretsDir: string): Promise<ReadonlyMap<string, Buffer>> {
  const dir = path.join(secretsDir, credentialDirName(name));
  return readMountedSecret(dir).catch((cause: unknown) => {
    throw new Error(`the secret ${name} cannot be read in the pod: ${errorMessage(cause)}`, { cause });
  });
}

function trimmed(lines: readonly string[]): string[] {
  return lines.map((line) => line.trim()).filter((line) => line !== '');
}

/** Passwords are not kept in memory longer than they are used. */
function digestOf({ keys, passwords }: Wanted): string {
  return createHash('sha256')
    .update(JSON.stringify([[...keys], [...passwords]]))
    .digest('hex');
}
