import type {
  ControllerDecision,
  ExplainDecision,
  ExplainStep,
  TimelineRow,
  VirtualMachineInstance,
} from '../../api/index.ts';
import type { SandboxTimes } from '../pod-runner/index.ts';

/** What is known of how a VM came to run. Times are milliseconds since the epoch. */
export interface TimelineFacts {
  readonly vmi: VirtualMachineInstance;
  /** What virt-controller decided about this VMI, oldest first; empty when it does not answer. */
  readonly controller: readonly ControllerDecision[];
  /** The same about the VirtualMachine that it is an instance of. */
  readonly machine: readonly ControllerDecision[];
  /** The same of the agent. */
  readonly agent: readonly ExplainDecision[];
  /** Undefined: its pod is not on this machine. */
  readonly sandbox: SandboxTimes | undefined;
  /** When the launcher's log said what, by its words. */
  readonly launcher: ReadonlyMap<string, number>;
  /** libvirt's own note of when it started QEMU. */
  readonly qemuMs: number | undefined;
  /** By then the guest had written to its serial console, and a login prompt. */
  readonly guest: { readonly firstMs?: number; readonly promptMs?: number };
}

interface Span {
  readonly part: TimelineRow['part'];
  readonly what: string;
  readonly fromMs?: number | undefined;
  readonly toMs: number | undefined;
}

/** From its creation to the login prompt, each row from what is written down somewhere; what is not known has no row. Pure. */
export function timelineRows(facts: TimelineFacts): TimelineRow[] {
  const spans = [
    ...machineSpans(facts),
    ...controllerSpans(facts),
    ...schedulerSpans(facts),
    ...podSpans(facts),
    ...launcherSpans(facts),
    ...agentSpans(facts),
    ...qemuSpans(facts),
    ...guestSpans(facts),
  ];
  const rows = spans.flatMap(({ part, what, fromMs, toMs }): TimelineRow[] => {
    if (toMs === undefined) return [];
    // Of two clocks, or of a run that was begun anew: that is no span.
    const from = fromMs === undefined || fromMs > toMs ? {} : { from: new Date(fromMs).toISOString() };
    return [{ part, what, ...from, to: new Date(toMs).toISOString() }];
  });
  return [...rows.sort((one, other) => beginOf(one) - beginOf(other)), ...phaseRows(facts)];
}

function beginOf({ from, to }: TimelineRow): number {
  return Date.parse(from ?? to);
}

/** The newest start of its machine: a machine was started for earlier instances, too. */
function machineSpans({ vmi, machine }: TimelineFacts): Span[] {
  const owners = (vmi.metadata.ownerReferences ?? []).map(({ uid }) => uid);
  const made = machine.findLast(
    ({ uid, steps }) =>
      owners.includes(uid) && steps.some(({ step, outcome }) => step === 'startVmi' && outcome === 'done'),
  );
  return made ? stepSpans('controller', Date.parse(made.lastAt), made.steps) : [];
}

function controllerSpans({ vmi, controller }: TimelineFacts): Span[] {
  const own = controller.filter(({ uid }) => uid === vmi.metadata.uid);
  return own.flatMap(({ lastAt, steps }) => stepSpans('controller', Date.parse(lastAt), steps));
}

/** Between the pod's object and its directory a node is chosen, and its pod runner hears of it. */
function schedulerSpans({ vmi, controller, sandbox }: TimelineFacts): Span[] {
  const made = controller.find(({ uid, steps }) => uid === vmi.metadata.uid && steps.some(isPodMade));
  if (!made || !sandbox) return [];
  const fromMs = stepSpans('controller', Date.parse(made.lastAt), made.steps).at(-1)?.toMs;
  return [{ part: 'scheduler', what: 'a node, until its pod runner begins', fromMs, toMs: sandbox.begunMs }];
}

const isPodMade = ({ step, outcome }: ExplainStep) => step === 'createPod' && outcome === 'done';

function podSpans({ sandbox }: TimelineFacts): Span[] {
  if (!sandbox) return [];
  const { begunMs, preparedMs, process1Ms, rootMadeMs } = sandbox;
  return [
    { part: 'pod', what: 'volumes, network, scripts', fromMs: begunMs, toMs: preparedMs },
    { part: 'pod', what: 'process 1 in namespaces of its own', fromMs: preparedMs, toMs: process1Ms },
    { part: 'pod', what: 'its root directory', fromMs: process1Ms, toMs: rootMadeMs },
  ];
}

function launcherSpans({ sandbox, launcher }: TimelineFacts): Span[] {
  const daemonMs = launcher.get('libvirt daemon started');
  return [
    { part: 'launcher', what: 'its program, until it starts libvirt', fromMs: sandbox?.rootMadeMs, toMs: daemonMs },
    {
      part: 'launcher',
      what: 'until libvirt and its command socket answer',
      fromMs: daemonMs,
      toMs: launcher.get('ready'),
    },
  ];
}

/** Until the guest runs; what the agent did later is no part of its start. */
function agentSpans({ vmi, agent }: TimelineFacts): Span[] {
  const own = agent.filter(({ uid }) => uid === vmi.metadata.uid);
  const running = own.findIndex(({ newPhase }) => newPhase === 'Running');
  const decisions = running < 0 ? own : own.slice(0, running + 1);
  const written = decisions.find(({ newPhase, write }) => newPhase === 'Running' && write.outcome === 'written');
  return [
    ...decisions.flatMap(({ lastAt, steps }) => stepSpans('agent', Date.parse(lastAt), steps)),
    { part: 'agent', what: 'sees the guest run', toMs: written && Date.parse(written.lastAt) },
  ];
}

/** Steps come one after the other, from the moment of their decision on. */
function stepSpans(part: Span['part'], startMs: number, steps: readonly ExplainStep[]): Span[] {
  let fromMs = startMs;
  return steps.flatMap(({ step, outcome, tookMs }) => {
    if (tookMs === undefined) return [];
    const toMs = fromMs + tookMs;
    const span = { part, what: outcome === 'done' ? step : `${step} (${outcome})`, fromMs, toMs };
    fromMs = toMs;
    return [span];
  });
}

function qemuSpans({ launcher, qemuMs }: TimelineFacts): Span[] {
  const [networkMs, definedMs, startedMs] = [
    launcher.get('network of the guest is served'),
    launcher.get('domain defined'),
    launcher.get('domain started'),
  ];
  return [
    { part: 'libvirt', what: 'domain defined', fromMs: networkMs, toMs: definedMs },
    { part: 'libvirt', what: 'until it starts QEMU', fromMs: definedMs, toMs: qemuMs },
    { part: 'QEMU', what: 'until its CPUs run', fromMs: qemuMs, toMs: startedMs },
  ];
}

function guestSpans({ launcher, guest: { firstMs, promptMs } }: TimelineFacts): Span[] {
  const startedMs = launcher.get('domain started');
  const isOne = firstMs === promptMs;
  return [
    ...(isOne
      ? []
      : [
          {
            part: 'guest',
            what: 'firmware and kernel, until its first words',
            fromMs: startedMs,
            toMs: firstMs,
          } as const,
        ]),
    { part: 'guest', what: 'until its login prompt', fromMs: isOne ? startedMs : firstMs, toMs: promptMs },
  ];
}

/** As the API keeps them: to the second. */
function phaseRows({ vmi }: TimelineFacts): TimelineRow[] {
  return (vmi.status?.phaseTransitionTimestamps ?? []).map(({ phase, phaseTransitionTimestamp }) => ({
    part: 'phase',
    what: phase,
    to: phaseTransitionTimestamp,
  }));
}
