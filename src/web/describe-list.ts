import type { WebBackend } from './ports.ts';
import type { VmList } from './rows.ts';

/** The list without its rows. */
export function describeList({ nodeName, actions, nodes, vms }: WebBackend): Omit<VmList, 'rows'> {
  const problem = vms.problem?.();
  const rows = nodes?.rows() ?? [];
  return {
    node: nodeName,
    actions: actions !== undefined,
    ...(rows.length > 1 && { nodes: rows }),
    ...(problem !== undefined && { problem }),
  };
}
