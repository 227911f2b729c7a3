import {
  annotations,
  hasLeftForElsewhere,
  isBeingDeleted,
  isFinal,
  isMigrationSource,
  isMigrationTarget,
  type RunStrategy,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';

export type RunAction =
  | { readonly kind: 'nothing' }
  /** `receives`: no guest is started, one is waited for. */
  | { readonly kind: 'start'; readonly paused: boolean; readonly receives?: true }
  | { readonly kind: 'stop' }
  /** Leave a Start request behind before the failed VMI is deleted: after that nothing else would report the failure. */
  | { readonly kind: 'requestStart' }
  /** Back-off after failed starts. */
  | { readonly kind: 'wait'; readonly ms: number }
  /** From now on another strategy counts: a halted VM is to be started, or its guest has come from elsewhere, or has gone there. */
  | { readonly kind: 'switchTo'; readonly strategy: RunStrategy; readonly since: 'asked' | 'left' | 'arrived' }
  /** The guest may run elsewhere: nothing is started before that is known. */
  | { readonly kind: 'unknown'; readonly message: string }
  | { readonly kind: 'refuse'; readonly message: string };

/** `running` and `runStrategy` exclude each other; neither means Halted. Throws RangeError with the reason. */
export function runStrategyOf(vm: VirtualMachine): RunStrategy {
  const { running, runStrategy } = vm.spec;
  if (running !== undefined && running !== null && runStrategy) {
    throw new RangeError('spec.running and spec.runStrategy exclude each other: keep runStrategy');
  }
  if (runStrategy) return runStrategy;
  return running ? 'Always' : 'Halted';
}

/**
 * What the strategy asks for now (upstream: pkg/virt-controller/watch/vm/vm.go, syncRunStrategy). `noReceiving`: why no guest comes from another
 * VMI object.
 */
export function decideRun(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: Date,
  noReceiving?: string,
): RunAction {
  let strategy: RunStrategy;
  try {
    strategy = runStrategyOf(vm);
  } catch (error) {
    return { kind: 'refuse', message: String((error as Error).message) };
  }
  const decide = strategies[strategy];
  if (!decide) return { kind: 'refuse', message: `unknown runstrategy: ${strategy}` };
  const stop = hasStopRequest(vm, vmi);
  const elsewhere = restarts.includes(strategy) && !stop ? goneElsewhere(vmi) : undefined;
  return elsewhere ?? decide({ vm, vmi, start: startRequest(vm), stop, waitMs: waitMs(vm, now), noReceiving });
}

interface RunInput {
  readonly vm: VirtualMachine;
  readonly vmi: VirtualMachineInstance | undefined;
  readonly start: { readonly paused: boolean } | undefined;
  readonly stop: boolean;
  readonly waitMs: number;
  readonly noReceiving: string | undefined;
}

/** Those that start a VM again whose VMI is over, or is deleted. */
const restarts: readonly RunStrategy[] = ['Always', 'RerunOnFailure', 'Once'];

/**
 * Its guest has left for another VMI object and must not be started here again; upstream says so of Always alone. A guest of which nothing is
 * known may run there, too.
 */
function goneElsewhere(vmi: VirtualMachineInstance | undefined): RunAction | undefined {
  if (!vmi || !isFinal(vmi) || !isMigrationSource(vmi)) return undefined;
  if (hasLeftForElsewhere(vmi)) return { kind: 'switchTo', strategy: 'Halted', since: 'left' };
  const { startTimestamp, failed } = vmi.status?.migrationState ?? {};
  if (!startTimestamp || failed) return undefined;
  const message =
    'the guest was on its way to another VMI object when its VMI ended here, and whether it has arrived is not known: it is not started ' +
    'again before that is said. Set runStrategy Halted if it runs there; delete the VMI if it does not';
  return { kind: 'unknown', message };
}

/** The VM's own strategy once its guest is there; without the annotation the VM stays one that received a guest. */
function afterArrival({ metadata }: VirtualMachine): RunAction {
  const wanted = metadata.annotations?.[annotations.restoreRunStrategy];
  if (wanted === undefined) return nothing;
  if (Object.hasOwn(strategies, wanted) && wanted !== 'WaitAsReceiver')
    return { kind: 'switchTo', strategy: wanted as RunStrategy, since: 'arrived' };
  const message = `annotation ${annotations.restoreRunStrategy}: ${JSON.stringify(wanted)} is no run strategy for a guest that runs`;
  return { kind: 'refuse', message };
}

const nothing: RunAction = { kind: 'nothing' };
const stopNow: RunAction = { kind: 'stop' };

const strategies: Readonly<Partial<Record<RunStrategy, (input: RunInput) => RunAction>>> = {
  Always({ vmi, stop, start, waitMs }) {
    if (!vmi) return startUnlessWaiting(waitMs, start);
    return stop || isFinal(vmi) ? stopNow : nothing;
  },
  RerunOnFailure({ vm, vmi, stop, start, waitMs }) {
    if (!vmi) {
      const isFirstRun = vm.status?.runStrategy !== 'RerunOnFailure';
      return start || isFirstRun ? startUnlessWaiting(waitMs, start) : nothing;
    }
    if (isBeingDeleted(vmi)) return nothing;
    const isStartAsked = vm.status?.stateChangeRequests?.some(({ action }) => action === 'Start');
    if (vmi.status?.phase === 'Failed' && !isStartAsked) return { kind: 'requestStart' };
    return stop || isFinal(vmi) ? stopNow : nothing;
  },
  Manual({ vmi, stop, start }) {
    if (!vmi) return start ? { kind: 'start', ...start } : nothing;
    return stop ? stopNow : nothing;
  },
  Halted({ vmi, start }) {
    if (vmi) return stopNow;
    return start ? { kind: 'switchTo', strategy: 'Always', since: 'asked' } : nothing;
  },
  Once({ vmi }) {
    return vmi ? nothing : { kind: 'start', paused: false };
  },
  WaitAsReceiver({ vm, vmi, noReceiving }) {
    const isReceiver = vmi !== undefined && isMigrationTarget(vmi);
    // A receiver that is none any more has its guest. It may move on within the cluster since, and then not get away.
    if (vmi?.status?.migrationState && !isReceiver) return afterArrival(vm);
    if (noReceiving !== undefined) {
      const message = `runStrategy WaitAsReceiver: this VM receives no guest: ${noReceiving}; use Manual to start here`;
      return { kind: 'refuse', message };
    }
    if (!vmi) return { kind: 'start', paused: false, receives: true };
    // One that is over received nothing: the next one waits.
    if (isReceiver) return isFinal(vmi) ? stopNow : nothing;
    const message = 'runStrategy WaitAsReceiver: the VMI of this VM was not made to receive a guest: set Halted first';
    return { kind: 'refuse', message };
  },
};

function startUnlessWaiting(ms: number, start: RunInput['start']): RunAction {
  return ms > 0 ? { kind: 'wait', ms } : { kind: 'start', paused: start?.paused ?? false };
}

/** Only the first request counts. */
export function startRequest(vm: VirtualMachine): { paused: boolean } | undefined {
  const [first] = vm.status?.stateChangeRequests ?? [];
  return first?.action === 'Start' ? { paused: first.data?.paused === 'true' } : undefined;
}

export function hasStopRequest(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): boolean {
  const [first] = vm.status?.stateChangeRequests ?? [];
  return first?.action === 'Stop' && vmi !== undefined && first.uid === vmi.metadata.uid;
}

function waitMs(vm: VirtualMachine, now: Date): number {
  const until = Date.parse(vm.status?.startFailure?.retryAfterTimestamp ?? '');
  return Number.isNaN(until) ? 0 : Math.max(0, until - now.getTime());
}

/** Delay after the n-th start that never came to Running (upstream: calculateStartBackoffTime). */
export function startBackoffSeconds(failures: number, random: () => number): number {
  const seconds = 10 * failures ** 2;
  return Math.min(300, Math.round(seconds + (random() * seconds) / 2));
}

export function strategyOrHalted(vm: VirtualMachine): RunStrategy {
  try {
    return runStrategyOf(vm);
  } catch {
    return 'Halted';
  }
}
