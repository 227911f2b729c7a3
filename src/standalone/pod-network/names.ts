import { seedOf } from './subnets.ts';

/** Bridges of all standalone nodes of a machine begin so. */
export const bridgePrefix = 'vn-';

export interface NetworkNames {
  readonly bridge: string;
  readonly table: string;
  /** Of services. */
  readonly serviceTable: string;
}

/** By the state directory: two nodes of one machine have different ones, and one node has the same at each start. */
export function namesOf(stateDir: string): NetworkNames {
  const id = seedOf(stateDir).toString('hex').slice(0, 8);
  return { bridge: `${bridgePrefix}${id}`, table: `virt_node_${id}`, serviceTable: `virt_node_${id}_services` };
}

/** The bridge of the node with this state directory. */
export function bridgeOf(stateDir: string): string {
  return namesOf(stateDir).bridge;
}

/** A stable one: a bridge without it takes that of a port, and another when the port goes. */
export function macOf(seed: string): string {
  const bytes = [...seedOf(seed).subarray(0, 5)].map((byte) => byte.toString(16).padStart(2, '0'));
  return ['02', ...bytes].join(':');
}
