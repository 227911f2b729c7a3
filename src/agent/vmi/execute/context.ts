import type { Observation } from '../observe/index.ts';
import type { AgentPorts } from '../ports.ts';

export type ExecutePorts = Pick<
  AgentPorts,
  'vmis' | 'domains' | 'ghosts' | 'launchers' | 'migrationProxies' | 'config' | 'host' | 'hostWork' | 'clock'
>;

/** What every step of a plan is given. */
export interface ExecuteContext {
  readonly observation: Observation;
  readonly ports: ExecutePorts;
  readonly signal: AbortSignal;
}
