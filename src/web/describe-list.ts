import type { PageRight } from './access.ts';
import type { WebBackend } from './ports.ts';
import type { NodeRow, VmList } from './rows.ts';

/** The list without its rows. */
export function describeList(
  { nodeName, actions, nodes, vms, kube, images, figures, timeline }: WebBackend,
  right: PageRight,
): Omit<VmList, 'rows'> {
  const problem = vms.problem?.();
  const rows = nodes?.rows() ?? [];
  const notice = noticeOf(rows);
  return {
    node: nodeName,
    actions: actions !== undefined && right === 'act',
    ...(right === 'look' && { lookOnly: true }),
    ...(kube && { kube: true }),
    ...(images && { images: true }),
    ...(figures && { figures: true }),
    ...(timeline && { timeline: true }),
    ...(rows.length > 1 && { nodes: rows }),
    ...(problem !== undefined && { problem }),
    ...(notice !== undefined && { notice }),
  };
}

/** Of one node: where there are several, each has a card that says it. */
function noticeOf([only, ...others]: readonly NodeRow[]): string | undefined {
  if (!only || others.length > 0 || only.agent === 'ready') return undefined;
  // What else it has not read yet comes by itself, and is no reason to worry.
  if (only.reason?.startsWith('AgentStarting'))
    return `the agent of ${only.name} is starting: machines that run go on, and new ones start when it is ready`;
  const state = only.agent === 'away' ? 'does not answer' : `is not ready${only.reason ? ` (${only.reason})` : ''}`;
  return `the agent of ${only.name} ${state}: machines that run go on, and cannot be started or reached until it is back`;
}
