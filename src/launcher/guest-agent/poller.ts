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

/** Upstream's questions and intervals (`pkg/virt-launcher/virtwrap/agent-poller/agent_poller.go`). */
const polls: readonly { readonly interval: keyof PollIntervals; readonly poll: Poll }[] = [
  { interval: 'qemuAgentVersionIntervalMs', poll: agentPoll('guest-info', versionFacts) },
  { interval: 'qemuAgentFileIntervalMs', poll: agentPoll('guest-get-fsinfo', filesystemFacts) },
  { interval: 'qemuFsfreezeStatusIntervalMs', poll: agentPoll('guest-fsfreeze-status', freezeFacts) },
  { interval: 'qemuAgentSysIntervalMs', poll: infoPoll(INTERFACES | OS | HOSTNAME | TIMEZONE, systemFacts) },
  { interval: 'qemuAgentUserIntervalMs', poll: infoPoll(USERS, userFacts) },
  { interval: 'qemuAgentSysIntervalMs', poll: infoPoll(LOAD, loadFacts) },
];

const firstIntervalMs = 10_000;

/** Timers from one start of polling to its end, by index in `polls`. */
interface Round {
  readonly kind: 'polling';
  readonly cancels: (() => void)[];
}

type PollerState =
  | { readonly kind: 'disconnected' }
  /** The agent is connected, the guest paused. */
  | { readonly kind: 'suspended' }
  | Round;

/** Asks the guest agent for facts while it is connected and the guest runs; rounds that fail are skipped. */
export class GuestPoller {
  readonly #intervals: PollIntervals;
  readonly #domainName: string;
  readonly #deps: { readonly hypervisor: PollHypervisor; readonly store: GuestStore; readonly log: Logger };
  readonly #clock: Clock;
  #state: PollerState = { kind: 'disconnected' };

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
    return this.#state.kind === 'polling';
  }

  agentChanged(connected: boolean): void {
    if (connected) this.#start();
    else this.stop();
  }

  guestSuspended(): void {
    if (this.#state.kind === 'polling') this.#become({ kind: 'suspended' });
  }

  guestResumed(): void {
    if (this.#state.kind === 'suspended') this.#start();
  }

  stop(): void {
    this.#become({ kind: 'disconnected' });
  }

  #become(state: PollerState): void {
    if (this.#state.kind === 'polling') for (const cancel of this.#state.cancels) cancel();
    this.#state = state;
  }

  #start(): void {
    if (this.isRunning) return;
    const round: Round = { kind: 'polling', cancels: [] };
    this.#become(round);
    for (const [slot, { interval, poll }] of polls.entries()) {
      const tickMs = this.#intervals[interval];
      if (tickMs > 0)
        this.#schedule(slot, poll, { round, delayMs: 0, nextMs: Math.min(firstIntervalMs, tickMs), tickMs });
    }
  }

  /** Each question starts often and slows down to its own tick. */
  #schedule(slot: number, poll: Poll, plan: { round: Round; delayMs: number; nextMs: number; tickMs: number }): void {
    const { round, delayMs, nextMs, tickMs } = plan;
    round.cancels[slot] = this.#clock.schedule(delayMs, () => {
      void this.#ask(poll).finally(() => {
        if (round !== this.#state) return;
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
