import type { WebBackend } from './ports.ts';
import type { VmList } from './rows.ts';

/** The list without its rows. */
export function describeList({ nodeName, actions, vms }: WebBackend): Omit<VmList, 'rows'> {
  const problem = vms.problem?.();
  return { node: nodeName, actions: actions !== undefined, ...(problem !== undefined && { problem }) };
}
