import {
  CgroupError,
  type CgroupOptions,
  findDaemon,
  findQemu,
  loadScheduling,
  type Scheduling,
  SchedulingError,
} from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import type { HookContext, HookResult, HostHook } from '../work/index.ts';
import { nameOf, needsPlacement, placeThreads, vcpuMask } from './cpu-placement.ts';
import { lockedMemoryBytes, locksMemory } from './locked-memory.ts';

export interface LimitOptions extends Omit<CgroupOptions, 'procDir'> {
  readonly procDir?: string;
}

export interface LimitsDeps {
  /** Loaded only for a guest that needs it. */
  readonly scheduling?: () => Promise<Scheduling>;
}

/** `isPlaced`: its threads are where the VMI as it is now wants them; `unplaced`: why the last try left some where they were. */
export type LimitFacts = { readonly isPlaced: boolean; readonly unplaced?: string };

/**
 * How much memory a guest may lock, and on which CPUs its threads run (upstream: pkg/hypervisor/kvm). All of it ends with the
 * launcher's processes: nothing to release. Another process of the agent places the threads once more.
 */
export function guestLimits(options: LimitOptions, deps: LimitsDeps = {}): HostHook<'limits', LimitFacts> {
  const work = new GuestLimits({ procDir: '/proc', ...options }, deps.scheduling ?? loadScheduling);
  return {
    name: 'limits',
    prepare: (context) => work.prepare(context),
    adjust: (context) => work.adjust(context),
    settle: (context) => work.settle(context),
  };
}

const nothing = { kind: 'done', facts: { isPlaced: false } } as const;

class GuestLimits {
  readonly #options: CgroupOptions;
  readonly #scheduling: () => Promise<Scheduling>;

  constructor(options: CgroupOptions, scheduling: () => Promise<Scheduling>) {
    this.#options = options;
    this.#scheduling = scheduling;
  }

  /** QEMU inherits the daemon's limit. A launcher without one starts QEMU itself. */
  async prepare(context: HookContext): Promise<HookResult<LimitFacts>> {
    vcpuMask(context.vmi.spec.domain.cpu?.realtime?.mask ?? '');
    if (!locksMemory(context.vmi)) return nothing;
    const daemon = await findDaemon(this.#targetOf(context));
    if (daemon === undefined) return { ...nothing, summary: 'nothing: the launcher has no libvirt daemon' };
    return { ...nothing, summary: await this.#raise(daemon, context) };
  }

  /** Devices may come to it. That QEMU cannot be found holds up no other change of the guest. */
  async adjust(context: HookContext): Promise<HookResult<LimitFacts>> {
    if (!locksMemory(context.vmi)) return nothing;
    const qemu = await findQemu(nameOf(context.vmi), this.#targetOf(context));
    if (qemu === undefined) return { ...nothing, summary: 'nothing: no QEMU of this guest runs in its launcher' };
    return { ...nothing, summary: await this.#raise(qemu, context) };
  }

  /** No failure where it cannot be done: the guest runs without, in words, and it is tried again. */
  async settle({ vmi, launcherPid, domain }: HookContext): Promise<HookResult<LimitFacts>> {
    if (!needsPlacement(vmi)) return { kind: 'done', facts: { isPlaced: true } };
    const { done, failed } = await placeThreads({ vmi, launcherPid, domain }, this.#scheduling, this.#options);
    const unplaced = failed.join('; ');
    const facts = unplaced === '' ? { isPlaced: true } : { isPlaced: false, unplaced };
    const summary = [...done, ...failed.map((text) => `not done: ${text}`)].join('; ') || 'nothing';
    return { kind: 'done', facts, summary };
  }

  #targetOf({ launcherPid }: HookContext) {
    return { launcherPid, procDir: this.#options.procDir };
  }

  async #raise(pid: number, { vmi, config }: HookContext): Promise<string> {
    const bytes = Math.ceil(lockedMemoryBytes(vmi, config.overheadRatio));
    const scheduling = await this.#scheduling();
    const isRaised = inHostWords(() => scheduling.raiseLockedMemory(pid, bytes));
    return isRaised ? `process ${pid} may lock ${bytes} bytes` : `process ${pid} may lock as much already`;
  }
}

function inHostWords<T>(act: () => T): T {
  try {
    return act();
  } catch (cause) {
    if (cause instanceof SchedulingError || cause instanceof CgroupError) {
      throw new HostError('LIMITS_REFUSED', cause.message, { cause });
    }
    throw cause;
  }
}
