import type { ConfigOrigin } from '../../../cluster-config/index.ts';
import type { QueueCounts } from '../../../reconcile/index.ts';
import type { ProxyFigures } from '../../migration-proxy/ports.ts';
import type { NodeHealth } from '../../node/ports.ts';
import type { LoopDelay } from '../explain/index.ts';

/** Why nothing of this agent's is to be expected yet, or any more. */
export interface NotReady {
  /** CamelCase, constant: the metric's label `reason`. */
  readonly why: string;
  /** One sentence for people. */
  readonly message: string;
}

/** What is published of the agent itself. Read at each scrape, from memory only. */
export interface AgentFigures {
  /** Upstream's word: the console server was started, and the agent does not leave yet. */
  isReady(): boolean;
  /** What `/readyz` says; empty: it is ready. */
  notReady(): readonly NotReady[];
  readonly queue: {
    readonly counts: QueueCounts;
    readonly unfinished: { readonly totalMs: number; readonly longestMs: number };
  };
  quarantined(): number;
  readonly loopDelay: Pick<LoopDelay, 'read' | 'totals'>;
  nodeHealth(): NodeHealth;
  configuration(): ConfigOrigin;
  /** Monotonic times of last successes: of the heartbeat and of each watch, under its resource's name. */
  lastSuccesses(): readonly { readonly what: string; readonly lastSuccessMs: number | undefined }[];
  /** Domains of which nothing is known now. */
  unknownDomains(): number;
  consoleSessions(): number;
  migrationProxies(): readonly ProxyFigures[];
  /** Of each pair that could be read, and of the authorities. */
  certificates(): readonly { readonly pair: string; readonly expiresAt: Date }[];
  /** Of pairs of which something is on disk that cannot be used. */
  certificateProblems(): readonly { readonly pair: string; readonly why: string }[];
  /** Starts of agents with this agent's private directory, this one included. Undefined: not counted. */
  starts(): number | undefined;
  sampledVms(): number;
}
