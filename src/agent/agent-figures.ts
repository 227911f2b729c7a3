import type { AgentState } from '../api/index.ts';
import type { AgentFigures } from './metrics/index.ts';
import { informersOf, type Parts } from './node-parts.ts';
import type { NodeHealth } from './node-ports.ts';
import type { LoopDelay } from './why/index.ts';

interface Sources {
  readonly parts: Parts;
  readonly loop: AgentFigures['queue'] & { readonly quarantine: { keys(): readonly unknown[] } };
  readonly loopDelay: LoopDelay;
  readonly nodeHealth: () => NodeHealth;
  readonly phase: () => AgentState['phase'];
}

type Figures = Omit<AgentFigures, 'certificates' | 'starts' | 'sampledVms'>;

/** What metrics tell of the agent, from the parts that know it. */
export function agentFigures({ parts, loop, loopDelay, nodeHealth, phase }: Sources): Figures {
  const { consoles, domains } = parts;
  return {
    isReady: () => phase() !== 'leaving' && consoles.serving().listens !== undefined,
    queue: loop,
    quarantined: () => loop.quarantine.keys().length,
    loopDelay,
    nodeHealth,
    lastSuccesses: () => lastSuccesses(parts, nodeHealth()),
    unknownDomains: () => [...domains.keys()].filter((key) => domains.view(key).kind === 'unknown').length,
    consoleSessions: () => consoles.openSessions(),
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
export function notReadyBecause({ consoles }: Parts, phase: AgentState['phase']): readonly string[] {
  const { listens, problem, tls } = consoles.serving();
  return [
    ...(phase === 'starting' ? ["this node's VMIs have not been listed yet"] : []),
    ...(phase === 'leaving' ? ['the agent leaves'] : []),
    ...(listens === undefined ? [`no consoles are served: ${problem ?? 'the server has not been started yet'}`] : []),
    ...(listens !== undefined && tls.kind !== 'ready' ? ['consoles have no certificates, or no authorities, yet'] : []),
  ];
}
