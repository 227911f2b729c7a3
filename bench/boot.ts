import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { resources, type TimelineRow, type VirtualMachineInstance } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { openConsole, readTimeline, untilLogin } from '../src/standalone/index.ts';
import { logLine } from './logs.ts';
import type { NodeUnderTest } from './node-under-test.ts';

/** Milliseconds since the object was applied. */
export interface Boot {
  readonly scheduledMs: number;
  readonly runningMs: number;
  /** Of the time to Running what the agent adds, see `agentShareMs`. */
  readonly agentMs: number;
  readonly loginMs: number;
  readonly goneMs: number;
  /** As `virt-node explain --timeline` has it. */
  readonly rows: readonly TimelineRow[];
}

type Watched = ReadonlyMap<string, number>;

function example(name: string): VirtualMachineInstance {
  const vmi: VirtualMachineInstance = parse(readFileSync('examples/vmi.yaml', 'utf8'));
  return { ...vmi, metadata: { ...vmi.metadata, name, namespace: 'default' } };
}

/** One VMI from apply to login to gone, timed from outside through watches and the guest's serial line. */
export async function measureBoot(
  node: NodeUnderTest,
  name: string,
  whileRunning: (podUid: string) => void,
): Promise<Boot> {
  const { client } = node;
  const type = resources.virtualMachineInstances;
  const signal = AbortSignal.timeout(120_000);
  const phases = new Map<string, number>();
  const { resourceVersion } = await client.list(type, { namespace: 'default' });
  const startMs = performance.now();
  const watching = watchPhases(node, name, resourceVersion, startMs, phases, signal);
  const { metadata } = await client.create(type, example(name));
  // A watch that ends before Running has failed.
  await Promise.race([phaseSeen(phases, 'Running', signal), watching]);
  const wish = { namespace: 'default', name, access: 'take', replay: true } as const;
  await untilLogin(await openConsole(node.paths, wish, signal), signal);
  const loginMs = performance.now() - startMs;
  const podUid = await podUidOf(node, metadata.uid ?? '');
  const at = (phase: string) => phases.get(phase) ?? Number.NaN;
  const wall = (phase: string) => performance.timeOrigin + startMs + at(phase);
  const agentMs = agentShareMs(node, name, podUid, { scheduled: wall('Scheduled'), running: wall('Running') });
  whileRunning(podUid);
  const timeline = await readTimeline(client, node.paths, { namespace: 'default', name }, new Date());
  await client.delete(type, { namespace: 'default', name });
  await watching;
  const [scheduledMs, runningMs, goneMs] = [at('Scheduled'), at('Running'), at('deleted') - loginMs];
  return { scheduledMs, runningMs, agentMs, loginMs, goneMs, rows: timeline?.rows ?? [] };
}

/**
 * From the moment at which both the VMI was Scheduled and its launcher ready until Running could be seen, without the
 * launcher's SyncVirtualMachine: what the agent adds.
 */
function agentShareMs(
  { paths }: NodeUnderTest,
  name: string,
  podUid: string,
  seenAtMs: { readonly scheduled: number; readonly running: number },
): number {
  const ready = logLine(path.join(paths.podLogsDir, podUid, 'compute.log'), ['"msg":"ready"']);
  const sync = logLine(path.join(paths.logDir, 'virt-handler.log'), [`"default/${name}"`, '"syncVirtualMachine":']);
  const couldStartAtMs = Math.max(seenAtMs.scheduled, Date.parse(ready.timestamp));
  return seenAtMs.running - couldStartAtMs - (sync.tookMs?.syncVirtualMachine ?? Number.NaN);
}

async function watchPhases(
  node: NodeUnderTest,
  name: string,
  resourceVersion: string,
  startMs: number,
  phases: Map<string, number>,
  signal: AbortSignal,
): Promise<void> {
  const options = { namespace: 'default', fieldSelector: `metadata.name=${name}`, resourceVersion, signal };
  for await (const event of node.client.watch<VirtualMachineInstance>(resources.virtualMachineInstances, options)) {
    const now = performance.now() - startMs;
    if (event.type === 'DELETED') {
      phases.set('deleted', now);
      return;
    }
    if (event.type !== 'ADDED' && event.type !== 'MODIFIED') continue;
    const phase = event.object.status?.phase ?? '';
    if (!phases.has(phase)) phases.set(phase, now);
    if (phase === 'Failed') throw new Error(`${name} failed: ${JSON.stringify(event.object.status?.conditions)}`);
  }
}

async function phaseSeen(phases: Watched, phase: string, signal: AbortSignal): Promise<void> {
  while (!phases.has(phase)) await sleep(2, signal);
}

async function podUidOf({ client }: NodeUnderTest, vmiUid: string): Promise<string> {
  const labelSelector = `kubevirt.io/created-by=${vmiUid}`;
  const pods = await client.list(resources.pods, { namespace: 'default', labelSelector });
  return pods.items[0]?.metadata.uid ?? '';
}
