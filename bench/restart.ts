import { statSync } from 'node:fs';
import { resources, type VirtualMachineInstance } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { type LauncherFleet, monotonicMs } from '../test/fixtures/scripted-launcher-fleet.ts';
import type { AgentUnderTest } from './agent-under-test.ts';
import type { ApiUnderLoad } from './api-under-load.ts';
import type { RequestCounts } from './audit-log.ts';

export interface RestartResult {
  /** From SIGTERM to the end of the process. */
  readonly stopMs: number;
  /** From the command to the last launcher that can report to the new agent. */
  readonly adoptedMs: number;
  /** From the command to the last launcher that was asked for its domain. */
  readonly askedMs: number;
  readonly heartbeatMs: number;
  readonly notAdopted: number;
  /** VMIs that do not run any more. */
  readonly harmed: number;
  readonly requests: RequestCounts | undefined;
}

const limitMs = 60_000;
const settleMs = 2_000;

/** The agent leaves and comes again among its launchers; the first `hung` of them do not answer any more. */
export async function measureRestart(
  api: ApiUnderLoad,
  namespace: string,
  agent: AgentUnderTest,
  fleet: LauncherFleet,
  hung: number,
): Promise<RestartResult> {
  const reports = await fleet.report();
  const silent = reports.slice(0, hung).map(({ podUid }) => podUid);
  const signalMs = performance.now();
  await agent.stop();
  const stopMs = performance.now() - signalMs;
  await fleet.hang(silent);
  api.requests();
  await fleet.forgetCalls();
  const [wallMs, startMs] = [Date.now(), monotonicMs()];
  const starting = agent.start();
  const pids = reports.slice(hung).map(({ pid }) => pid);
  const end = performance.now() + limitMs;
  while (pids.some((pid) => pipeMadeMs(pid) < wallMs) && performance.now() < end) await sleep(20);
  const { heartbeatMs } = await starting;
  const made = pids.map(pipeMadeMs);
  await sleep(settleMs);
  const asked = await askedFirstMs(fleet, pids, end);
  const { items } = await api.admin.list<VirtualMachineInstance>(resources.virtualMachineInstances, { namespace });
  const result = {
    stopMs,
    adoptedMs: Math.max(...made) - wallMs,
    askedMs: Math.max(...asked) - startMs,
    heartbeatMs,
    notAdopted: made.filter((atMs) => atMs < wallMs).length,
    harmed: items.filter(({ status }) => status?.phase !== 'Running').length,
    requests: api.requests(),
  };
  await fleet.resume(silent);
  return result;
}

/** Of these launchers; those that nobody has asked by `endMs` are left out. */
async function askedFirstMs(fleet: LauncherFleet, pids: readonly number[], endMs: number): Promise<number[]> {
  for (;;) {
    const reports = (await fleet.report()).filter(({ pid }) => pids.includes(pid));
    const asked = reports.flatMap(({ calls }) => calls.getDomain?.firstMs ?? []);
    if (asked.length >= reports.length || performance.now() > endMs) return asked;
    await sleep(200);
  }
}

/** Wall clock; an agent makes the notify pipe anew for each launcher that it takes over. */
function pipeMadeMs(pid: number): number {
  try {
    return statSync(`/proc/${pid}/root/run/kubevirt/domain-notify-pipe.sock`).mtimeMs;
  } catch {
    return 0;
  }
}
