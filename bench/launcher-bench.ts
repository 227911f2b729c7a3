import { existsSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import type { VirtualMachineInstance } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { CmdCaller } from '../test/fixtures/cmd-caller.ts';
import { hasStatus } from '../test/fixtures/launcher-bench.ts';
import { type LauncherSandbox, startLauncher } from '../test/fixtures/launcher-sandbox.ts';
import { launcherArgs, launcherVmi } from '../test/fixtures/launcher-vmi.ts';
import { type NotifyAgent, startNotifyAgent } from '../test/fixtures/notify-agent.ts';
import type { Figure } from './figures.ts';
import { cpuMs, type MemoryMb, memoryMb } from './process-figures.ts';
import { waitFor } from './waiting.ts';

export interface LauncherBenchOptions {
  /** Absolute path. */
  readonly program: string;
  readonly runs: number;
  /** VMs beside each other. */
  readonly vms: number;
  /** Of node, to see what they would do. */
  readonly flags?: readonly string[];
  readonly say: (text: string) => void;
}

/** After the start has been forgotten: garbage of it is collected when there is some more. */
const restMs = 20_000;

/** Launchers as processes of pods of their own, with libvirt and QEMU: what a start costs, and what a VM costs as long as it runs. */
export async function launcherBench(options: LauncherBenchOptions): Promise<Figure[]> {
  const { runs, vms, say } = options;
  const starts: Start[] = [];
  for (let run = 1; run <= runs; run++) {
    const pod = await newPod(options);
    starts.push(await measureStart(pod));
    await pod.close();
    say(`start ${run} of ${runs}: ${starts.at(-1)?.socketMs.toFixed(0)} ms`);
  }
  const figure = (name: string, pick: (start: Start) => number): Figure => {
    return { name, unit: 'ms', samples: starts.map(pick) };
  };
  const ofStarts = [
    figure('exec → command socket', ({ socketMs }) => socketMs),
    figure('  CPU of the launcher until then', ({ cpu }) => cpu),
  ];
  return [...ofStarts, ...(await memoryFigures(1, options)), ...(await memoryFigures(vms, options))];
}

interface Start {
  readonly socketMs: number;
  readonly cpu: number;
}

/** With the process of its launcher. */
interface LauncherPod extends LauncherSandbox {
  launcher(): number;
}

async function newPod({ program, flags = [] }: LauncherBenchOptions): Promise<LauncherPod> {
  const env = { VIRT_LAUNCHER_KVM: 'fails', VIRT_LAUNCHER_NETWORK: 'user' };
  const pod = await startLauncher(program, { args: launcherArgs, nodeFlags: flags, env });
  const launcher = () => {
    const [pid] = pod.pids(`${program}\0`);
    if (pid === undefined) throw new Error(`the launcher has ended: ${pod.log()}`);
    return pid;
  };
  return { ...pod, launcher };
}

async function measureStart(pod: LauncherPod): Promise<Start> {
  while (!existsSync(pod.commandSocket)) {
    if (performance.now() - pod.startedMs > 60_000) throw new Error(`the launcher is not ready: ${pod.log()}`);
    await setImmediate();
  }
  return { socketMs: performance.now() - pod.startedMs, cpu: cpuMs(pod.launcher()) };
}

/** All at once: what they share is shared by all of them. */
async function memoryFigures(vms: number, options: LauncherBenchOptions): Promise<Figure[]> {
  const running: { readonly pod: LauncherPod; readonly agent: NotifyAgent }[] = [];
  try {
    for (let vm = 1; vm <= vms; vm++) {
      running.push(await startVm(launcherVmi(), options));
      options.say(`${vm} of ${vms} VMs run`);
    }
    await sleep(restMs);
    const memoryOf = (pids: (pod: LauncherPod) => number) => running.map(({ pod }) => memoryMb(pids(pod)));
    return [
      ...figuresOf(
        `launcher, ${vms} VMs`,
        memoryOf((pod) => pod.launcher()),
      ),
      ...figuresOf(
        `libvirt's daemon, ${vms} VMs`,
        memoryOf((pod) => pod.pids('libvirtd')[0] ?? Number.NaN),
      ),
    ];
  } finally {
    for (const { pod, agent } of running) {
      await agent.close();
      await pod.close();
    }
  }
}

async function startVm(vmi: VirtualMachineInstance, options: LauncherBenchOptions) {
  const pod = await newPod(options);
  await measureStart(pod);
  const agent = await startNotifyAgent(pod.notifyPipe);
  const caller = new CmdCaller(pod.commandSocket);
  const { success, message } = await caller.sync(vmi);
  caller.close();
  if (!success) throw new Error(`${message}\n${pod.log()}`);
  await waitFor('a guest that runs', 60_000, async () => agent.events.some(hasStatus('Running')) || undefined);
  return { pod, agent };
}

function figuresOf(of: string, samples: readonly MemoryMb[]): Figure[] {
  const figure = (name: string, pick: (memory: MemoryMb) => number): Figure => {
    return { name: `${name} of ${of}`, unit: 'MB', samples: samples.map(pick) };
  };
  return [
    figure('PSS', ({ proportional }) => proportional),
    figure('  its own', ({ own }) => own),
    figure('  RSS', ({ resident }) => resident),
  ];
}
