import { type Clock, type Logger, shownNames, sleep, systemClock } from '../../base/index.ts';
import { type DomainRef, LifecycleEvent } from '../../libvirt/index.ts';
import { sriovAlias } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import type { Hypervisor, HypervisorEvent } from '../ports.ts';
import { wordsOf } from './record.ts';

export interface ReleaseDeps {
  readonly hypervisor: Pick<Hypervisor, 'requestUnplug'>;
  readonly log: Logger;
  readonly clock?: Clock;
}

/** Upstream's: from the last device that was let go of. */
const answerMs = 30_000;
const advice = 'or shut it down to move it';
const stopped = 'the guest has stopped before it gave up its SR-IOV interfaces: start the VM where it is to run';
const booted = `see that its operating system has booted and can give up PCI devices while it runs, and migrate it again, ${advice}`;

/**
 * Takes the SR-IOV devices from a guest that is to leave: QEMU moves none of them (upstream: `hotUnplugHostDevices` of
 * pkg/virt-launcher/virtwrap/live-migration-source.go). What the guest has let go of when this fails is plugged in again by order of the agent.
 */
export class DeviceRelease {
  readonly #domain: DomainRef;
  readonly #deps: ReleaseDeps;
  readonly #clock: Clock;
  /** Interfaces whose device the guest still has, by alias. */
  readonly #left: Map<string, string>;
  readonly #asked = new Set<string>();
  #refused: string | undefined;
  #hasStopped = false;
  #wake: () => void = () => undefined;

  constructor(options: { readonly domain: DomainRef; readonly interfaces: readonly string[] }, deps: ReleaseDeps) {
    this.#domain = options.domain;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    this.#left = new Map(options.interfaces.map((name) => [sriovAlias(name), name]));
  }

  handle(event: HypervisorEvent): void {
    // A daemon that was started anew may have told of a device before it was heard.
    if (event.kind === 'connected') this.#asked.clear();
    else if (event.domain.name !== this.#domain.name) return;
    else if (event.kind === 'lifecycle' && event.event === LifecycleEvent.STOPPED) this.#hasStopped = true;
    // What else happens gives it no more time.
    else if (event.kind !== 'unplug' || !this.#left.has(event.alias)) return;
    else if (event.isGone) this.#gone(event.alias);
    else this.#refused ??= this.#left.get(event.alias);
    this.#wake();
  }

  /** Resolves when the guest has none of them any more, or `signal` has come. Throws `LauncherError` UNPLUG_PENDING. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#askForAll();
      if (this.#left.size === 0 || signal.aborted) return;
      if (this.#hasStopped) throw new LauncherError('INVALID_REQUEST', stopped);
      if (this.#refused !== undefined) throw refused(this.#refused);
      const isAsked = [...this.#left.keys()].every((alias) => this.#asked.has(alias));
      if (isAsked && !(await this.#heard(signal))) throw unanswered([...this.#left.values()]);
    }
  }

  async #askForAll(): Promise<void> {
    for (const [alias, name] of this.#left) {
      if (this.#asked.has(alias)) continue;
      this.#asked.add(alias);
      await this.#ask(alias, name);
    }
  }

  async #ask(alias: string, name: string): Promise<void> {
    try {
      if ((await this.#deps.hypervisor.requestUnplug(this.#domain, alias)) === 'gone') this.#gone(alias);
    } catch (error) {
      throw notAsked(name, error);
    }
  }

  #gone(alias: string): void {
    const name = this.#left.get(alias);
    if (!this.#left.delete(alias)) return;
    this.#deps.log.info({ interface: name }, 'the guest has let go of a network device of the machine, to migrate');
  }

  /** False: nothing in time. */
  async #heard(signal: AbortSignal): Promise<boolean> {
    const heard = new AbortController();
    this.#wake = () => heard.abort();
    await sleep(answerMs, AbortSignal.any([signal, heard.signal]), this.#clock).catch(() => undefined);
    return heard.signal.aborted || signal.aborted;
  }
}

function unanswered(names: readonly string[]): LauncherError {
  const problem = `the guest has not let go of its SR-IOV interfaces within ${answerMs / 1000} s (${shownNames(names)})`;
  return new LauncherError('UNPLUG_PENDING', `${problem}, and cannot migrate with them: ${booted}`);
}

function refused(name: string): LauncherError {
  const problem = `the guest refuses to let go of its SR-IOV interface ${name}, and cannot migrate with it`;
  return new LauncherError('UNPLUG_PENDING', `${problem}: ${booted}`);
}

function notAsked(name: string, cause: unknown): LauncherError {
  const problem = `libvirt does not take the SR-IOV interface ${name} from the guest, which cannot migrate with it`;
  const fixed = `an interface with a pciAddress may be where nothing can be unplugged: let it have none, ${advice}`;
  return new LauncherError('UNPLUG_PENDING', `${problem}: ${wordsOf(cause)}: ${fixed}`, { cause });
}
