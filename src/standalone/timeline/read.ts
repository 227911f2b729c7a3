import type { TimelineReport } from '../../api/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import type { NodePaths } from '../paths.ts';
import { readTimelineFacts } from './facts.ts';
import { timelineRows } from './rows.ts';

/** Undefined: no such VM runs. Rejects with KubeError when the API does not answer. */
export async function readTimeline(
  client: KubeClient,
  paths: NodePaths,
  vm: { readonly namespace: string; readonly name: string },
  now: Date,
): Promise<TimelineReport | undefined> {
  const facts = await readTimelineFacts(client, paths, vm);
  if (!facts) return undefined;
  const { metadata, status } = facts.vmi;
  return {
    kind: 'Timeline',
    at: now.toISOString(),
    ...vm,
    uid: metadata.uid ?? '',
    ...(status?.nodeName && { node: status.nodeName }),
    created: metadata.creationTimestamp ?? '',
    ...(facts.guest.promptMs !== undefined && { whole: true }),
    rows: timelineRows(facts),
  };
}
