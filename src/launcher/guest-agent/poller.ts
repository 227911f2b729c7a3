import { type Clock, errorMessage, type Logger, systemClock } from '../../base/index.ts';
import { type DomainRef, GuestInfoType } from '../../libvirt/index.ts';
import type { LauncherOptions } from '../options.ts';
import type { Hypervisor } from '../ports.ts';
import { runAgentCommand } from './command.ts';
import { filesystemFacts, loadFacts, systemFacts, userFacts, versionFacts } from './facts.ts';
import type { GuestFacts, GuestStore } from './store.ts';

type PollHypervisor = Pick<Hypervisor, 'agentCommand' | 'guestInfo' | 'lookup'>;
type Poll = (hypervisor: PollHypervisor, domain: DomainRef) => Promise<Partial<GuestFacts>>;

export type PollIntervals = Pick<
  LauncherOptions,
  | 'qemuAgentSysIntervalMs'
  | 'qemuAgentFileIntervalMs'
  | 'qemuAgentUserIntervalMs'
  | 'qemuAgentVersionIntervalMs'
  | 'qemuFsfreezeStatusIntervalMs'
>;

const { USERS, OS, TIMEZONE, HOSTNAME, INTERFACES, LOAD } = GuestInfoType;

/** Spec 70 §8.1. */
const polls: readonly { readonly interval: keyof PollIntervals; readonly poll: Poll }[] = [
  { interval: 'qemuAgentVersionIntervalMs', poll: agentPoll('guest-info', versionFacts) },
  { interval: 'qemuAgentFileIntervalMs', poll: agentPoll('guest-get-fsinfo', filesystemFacts) },
  { interval: 'qemuFsfreezeStatusIntervalMs', poll: agentPoll('guest-fsfreeze-status', freezeFacts) },
  { interval: 'qemuAgentSysIntervalMs', poll: infoPoll(INTERFACES | OS | HOSTNAME | TIMEZONE, systemFacts) },
  { interval: 'qemuAgentUserIntervalMs', poll: infoPoll(USERS, userFacts) },
  { interval: 'qemuAgentSysIntervalMs', poll: infoPoll(LOAD, loadFacts) },
];

const firstIntervalMs = 10_000;

/** Asks the guest agent for facts while it is connected and the guest runs; rounds that fail are skipped. */
export class GuestPoller {
  readonly #intervals: PollIntervals;
  readonly #domainName: string;
  readonly #deps: { readonly hypervisor: PollHypervisor; readonly store: GuestStore; readonly log: Logger };
  readonly #clock: Clock;
  #cancels: (() => void)[] = [];
  #round = 0;
  #isConnected = false;

  constructor(
    options: { readonly intervals: PollIntervals; readonly domainName: string },
    deps: {
      readonly hypervisor: PollHypervisor;
      readonly store: GuestStore;
      readonly log: Logger;
      readonly clock?: Clock;
    },
  ) {
    this.#intervals = options.intervals;
    this.#domainName = options.domainName;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
  }

  get isRunning(): boolean {
    return this.#cancels.length > 0;
  }

  agentChanged(connected: boolean): void {
    this.#isConnected = connected;
    if (connected) this.#start();
    else this.stop();
  }

  guestSuspended(): void {
    this.stop();
  }

  guestResumed(): void {
    if (this.#isConnected) this.#start();
  }

  stop(): void {
    this.#round++;
    for (const cancel of this.#cancels.splice(0)) cancel();
  }

  #start(): void {
    if (this.isRunning) return;
    const round = ++this.#round;
    for (const [slot, { interval, poll }] of polls.entries()) {
      const tickMs = this.#intervals[interval];
      if (tickMs > 0)
        this.#schedule(slot, poll, { round, delayMs: 0, nextMs: Math.min(firstIntervalMs, tickMs), tickMs });
    }
  }

  /** Each question starts often and slows down to its own tick. */
  #schedule(slot: number, poll: Poll, plan: { round: number; delayMs: number; nextMs: number; tickMs: number }): void {
    const { round, delayMs, nextMs, tickMs } = plan;
    this.#cancels[slot] = this.#clock.schedule(delayMs, () => {
      void this.#ask(poll).finally(() => {
        if (round !== this.#round) return;
        this.#schedule(slot, poll, { round, delayMs: nextMs, nextMs: Math.min(tickMs, nextMs * 2), tickMs });
      });
    });
  }

  async #ask(poll: Poll): Promise<void> {
    const { hypervisor, store, log } = this.#deps;
    try {
      const domain = await hypervisor.lookup(this.#domainName);
      if (domain) store.update(await poll(hypervisor, domain));
    } catch (error) {
      log.debug({ err: errorMessage(error) }, 'guest agent gave no answer');
    }
  }
}

function agentPoll(command: string, facts: (answer: unknown) => Partial<GuestFacts>): Poll {
  return async (hypervisor, domain) => facts(await runAgentCommand(hypervisor, domain, { execute: command }));
}

function infoPoll(
  types: number,
  facts: (params: Awaited<ReturnType<Hypervisor['guestInfo']>>) => Partial<GuestFacts>,
): Poll {
  return async (hypervisor, domain) => facts(await hypervisor.guestInfo(domain, types));
}

function freezeFacts(answer: unknown): Partial<GuestFacts> {
  return answer === 'frozen' || answer === 'thawed' ? { fsFreezeStatus: answer } : {};
}
