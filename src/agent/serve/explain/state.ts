import { readdir } from 'node:fs/promises';
import { type AgentState, type DomainView, type ExplainSeen, explainApiVersion, type Key } from '../../../api/index.ts';
import type { Clock } from '../../../base/index.ts';
import type { CrashLoopBackoff, ExplainSource, QueueCounts } from '../../../reconcile/index.ts';
import type { MigrationProxies, ProxyFigures } from '../../migration-proxy/ports.ts';
import type { ClusterSettings, NodeHealth } from '../../node/ports.ts';
import type { LoopDelay } from './loop-delay.ts';

export interface InformerState {
  readonly name: string;
  readonly synced: boolean;
  readonly connected: boolean;
  readonly objects: number;
  readonly lastSuccessMs: number | undefined;
  readonly failures: number;
  readonly lastError: string | undefined;
}

/** What the state is made of; everything is read, nothing is asked. */
export interface StateDeps {
  readonly loop: ExplainSource<ExplainSeen> & {
    readonly counts: QueueCounts;
    readonly crashLoops: Pick<CrashLoopBackoff, 'keys' | 'of'>;
    failing(): Key[];
    runningFor(ms: number): Key[];
  };
  /** Keys of which the loop remembers something. */
  readonly memories: { readonly remembered: number };
  readonly informers: () => readonly InformerState[];
  readonly domains: { keys(): Iterable<Key>; view(key: Key): DomainView };
  readonly migrationProxies: Pick<MigrationProxies, 'open' | 'unavailable' | 'figures'>;
  readonly heartbeat: { readonly health: NodeHealth };
  readonly settings: Pick<ClusterSettings, 'origin' | 'problem'>;
  readonly consoles: () => AgentState['consoles'];
  readonly phase: () => AgentState['phase'];
  readonly clock: Clock;
  readonly loopDelay: Pick<LoopDelay, 'read'>;
}

const listLimit = 100;
const slowMs = 1_000;

export async function readState(nodeName: string, deps: StateDeps): Promise<AgentState> {
  const { clock, loop, migrationProxies, heartbeat } = deps;
  const nowMs = clock.monotonicMs();
  const ago = (atMs: number | undefined) =>
    atMs === undefined ? {} : { lastSuccessSecondsAgo: Math.round((nowMs - atMs) / 100) / 10 };
  const { running, queued, waiting } = loop.counts;
  return {
    apiVersion: explainApiVersion,
    kind: 'AgentState',
    node: nodeName,
    at: clock.now().toISOString(),
    pid: process.pid,
    upSeconds: Math.round(process.uptime() * 10) / 10,
    phase: deps.phase(),
    heartbeat: { ...ago(heartbeat.health.lastSuccessMs), ...nodeHealth(heartbeat.health, nowMs) },
    ...configuration(deps.settings),
    informers: deps.informers().map(({ lastSuccessMs, lastError, ...rest }) => ({
      ...rest,
      ...ago(lastSuccessMs),
      ...(lastError !== undefined && { lastError }),
    })),
    queue: { running, queued, waiting },
    slow: slowReconciles(deps),
    backingOff: loop
      .failing()
      .slice(0, listLimit)
      .map((vmi) => {
        const { failuresInARow, inMs } = loop.tryOf(vmi);
        return { vmi, failures: failuresInARow, ...(inMs !== undefined && { nextInMs: inMs }) };
      }),
    quarantined: loop.crashLoops
      .keys()
      .slice(0, listLimit)
      .flatMap((vmi) => {
        const entry = loop.crashLoops.of(vmi);
        return entry ? [{ vmi, ...entry }] : [];
      }),
    unknownDomains: unknownDomains(deps, nowMs),
    relays: {
      open: migrationProxies.open,
      ...(migrationProxies.unavailable !== undefined && { unavailable: migrationProxies.unavailable }),
      ...openRelays(migrationProxies.figures()),
    },
    consoles: deps.consoles(),
    decisions: keptDecisions(loop),
    remembered: deps.memories.remembered,
    eventLoopDelayMs: deps.loopDelay.read(),
    eventLoopUtilization: Math.round(performance.eventLoopUtilization().utilization * 1e4) / 1e4,
    ...(await processFigures()),
  };
}

function nodeHealth({ schedulable, failures, problems }: NodeHealth, nowMs: number) {
  return {
    ...(schedulable !== undefined && { schedulable }),
    failures,
    problems: problems.slice(0, listLimit).map(({ sinceMs, ...problem }) => ({
      ...problem,
      forSeconds: Math.round((nowMs - sinceMs) / 1000),
    })),
  };
}

function configuration({ origin, problem }: StateDeps['settings']) {
  const { from } = origin;
  return {
    configuration:
      origin.from === 'defaults'
        ? { from }
        : { from, asOf: origin.asOf.toISOString(), resourceVersion: origin.resourceVersion },
    ...(problem !== undefined && { configurationProblem: problem }),
  };
}

function keptDecisions({ decisions }: StateDeps['loop']): AgentState['decisions'] {
  const { keys: vmis, ...more } = decisions.size;
  return { vmis, ...more };
}

function slowReconciles({ loop }: StateDeps): AgentState['slow'] {
  const keys = loop.runningFor(slowMs).slice(0, listLimit);
  return keys.map((vmi) => ({ vmi, forSeconds: Math.round((loop.tryOf(vmi).forMs ?? 0) / 1000) }));
}

/** Left out where there are none. */
function openRelays(figures: readonly ProxyFigures[]): Pick<AgentState['relays'], 'sides'> {
  if (figures.length === 0) return {};
  return { sides: figures.slice(0, listLimit).map(({ key: vmi, ...rest }) => ({ vmi, ...rest })) };
}

function unknownDomains({ domains }: StateDeps, nowMs: number): AgentState['unknownDomains'] {
  const unknown: { vmi: string; because: string; forSeconds: number }[] = [];
  for (const vmi of domains.keys()) {
    const view = domains.view(vmi);
    if (view.kind !== 'unknown') continue;
    unknown.push({ vmi, because: view.reason.slice(0, 300), forSeconds: Math.round((nowMs - view.sinceMs) / 1000) });
    if (unknown.length === listLimit) break;
  }
  return unknown;
}

async function processFigures() {
  const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  const resources: Record<string, number> = {};
  for (const name of process.getActiveResourcesInfo()) resources[name] = (resources[name] ?? 0) + 1;
  return {
    memory: { rssBytes: rss, heapUsedBytes: heapUsed, heapTotalBytes: heapTotal, externalBytes: external },
    cpuSeconds: { user: user / 1e6, system: system / 1e6 },
    resources,
    openFiles: (await readdir('/proc/self/fd').catch(() => [])).length,
  };
}
