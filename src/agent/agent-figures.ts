import type { AgentState } from '../api/index.ts';
import { unreachable } from '../base/index.ts';
import type { NodeHealth } from './node/ports.ts';
import { informersOf, type Parts } from './node-parts.ts';
import type { LoopDelay } from './serve/explain/index.ts';
import type { AgentFigures, NotReady } from './serve/metrics/index.ts';

interface Sources {
  readonly parts: Parts;
  readonly loop: AgentFigures['queue'] & { readonly crashLoops: { keys(): readonly unknown[] } };
  readonly loopDelay: Pick<LoopDelay, 'read' | 'totals'>;
  readonly nodeHealth: () => NodeHealth;
  readonly phase: () => AgentState['phase'];
  readonly migrationProxies: AgentFigures['migrationProxies'];
}

type Figures = Omit<AgentFigures, 'certificates' | 'certificateProblems' | 'notReady' | 'starts' | 'sampledVms'>;

/** What metrics tell of the agent, from the parts that know it. */
export function agentFigures({ parts, loop, loopDelay, nodeHealth, phase, migrationProxies }: Sources): Figures {
  const { consoles, domains } = parts;
  return {
    isReady: () => phase() !== 'leaving' && consoles.serving().listens !== undefined,
    queue: loop,
    quarantined: () => loop.crashLoops.keys().length,
    loopDelay,
    nodeHealth,
    configuration: () => parts.settings.origin,
    lastSuccesses: () => lastSuccesses(parts, nodeHealth()),
    unknownDomains: () => [...domains.keys()].filter((key) => domains.view(key).kind === 'unknown').length,
    consoleSessions: () => consoles.openSessions(),
    migrationProxies,
  };
}

/** Two watches of one resource are as good as the worse of them. */
function lastSuccesses(parts: Parts, { lastSuccessMs }: NodeHealth): ReturnType<Figures['lastSuccesses']> {
  const worst = new Map<string, number | undefined>([['heartbeat', lastSuccessMs]]);
  for (const { name, lastSuccessMs: atMs } of informersOf(parts)) {
    const known = worst.has(name) ? worst.get(name) : atMs;
    worst.set(name, known === undefined || atMs === undefined ? undefined : Math.min(known, atMs));
  }
  return [...worst].map(([what, atMs]) => ({ what, lastSuccessMs: atMs }));
}

/** Why nothing of this agent's is to be expected yet, or any more. An API server that is away is no reason: consoles work. */
export function notReadyBecause(
  { consoles }: { readonly consoles: Pick<Parts['consoles'], 'serving'> },
  phase: AgentState['phase'],
): readonly NotReady[] {
  const found: NotReady[] = [];
  if (phase === 'starting') found.push({ why: 'VmisNotListed', message: "this node's VMIs have not been listed yet" });
  if (phase === 'leaving') found.push({ why: 'AgentLeaving', message: 'the agent leaves' });
  const { listens, problem, tls } = consoles.serving();
  if (listens === undefined) {
    const message = `no consoles are served: ${problem ?? 'the server has not been started yet'}`;
    found.push({ why: 'ConsolesNotServed', message });
  } else found.push(...withoutTls(tls));
  return found;
}

/** By what the consoles' TLS waits for. */
const missingReasons: Readonly<Record<string, string>> = {
  'key pair': 'KeyPairMissing',
  'bundle of authorities': 'AuthoritiesMissing',
  settings: 'TlsSettingsMissing',
};

function withoutTls(tls: ReturnType<Parts['consoles']['serving']>['tls']): NotReady[] {
  switch (tls.kind) {
    case 'ready':
      return [];
    case 'unusable':
      return [{ why: 'TlsUnusable', message: `consoles cannot use what they have for TLS: ${tls.reason}` }];
    case 'waiting':
      return (tls.missing.length === 0 ? ['settings'] : tls.missing).map((what) => ({
        why: missingReasons[what] ?? 'TlsUnusable',
        message: `consoles have no ${what} yet`,
      }));
    default:
      return unreachable(tls);
  }
}
