import {
  isBeingDeleted,
  isFinal,
  type RunStrategy,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';

export type RunAction =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'start'; readonly paused: boolean }
  | { readonly kind: 'stop' }
  /** Leave a Start request behind before the failed VMI is deleted: after that nothing else would report the failure. */
  | { readonly kind: 'requestStart' }
  /** Back-off after failed starts. */
  | { readonly kind: 'wait'; readonly ms: number }
  /** A Start request for a halted VM: from now on it shall run. */
  | { readonly kind: 'switchToAlways' }
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

/** What the strategy asks for now (upstream: pkg/virt-controller/watch/vm/vm.go, syncRunStrategy). */
export function decideRun(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined, now: Date): RunAction {
  let strategy: RunStrategy;
  try {
    strategy = runStrategyOf(vm);
  } catch (error) {
    return { kind: 'refuse', message: String((error as Error).message) };
  }
  const decide = strategies[strategy];
  if (!decide) return { kind: 'refuse', message: refusedStrategies[strategy] ?? `unknown runstrategy: ${strategy}` };
  return decide({ vm, vmi, start: startRequest(vm), stop: hasStopRequest(vm, vmi), waitMs: waitMs(vm, now) });
}

interface RunInput {
  readonly vm: VirtualMachine;
  readonly vmi: VirtualMachineInstance | undefined;
  readonly start: { readonly paused: boolean } | undefined;
  readonly stop: boolean;
  readonly waitMs: number;
}

/** Known, and not done. */
const refusedStrategies: Readonly<Partial<Record<string, string>>> = {
  WaitAsReceiver:
    'runStrategy WaitAsReceiver: this controller receives no guests of other clusters or namespaces; use Manual to start here',
};

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
    return start ? { kind: 'switchToAlways' } : nothing;
  },
  Once({ vmi }) {
    return vmi ? nothing : { kind: 'start', paused: false };
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
