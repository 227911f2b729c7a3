import { annotations, type KubeObject, labels } from '../api/index.ts';
import { memberAt } from '../base/index.ts';
import type { NodeRow } from './rows.ts';

/** Beats come every minute; one may be late. */
const silentMs = 150_000;
const unschedulableReason = 'virt-handler.kubevirt.io/unschedulable-reason';

/** A Node as the page shows it. Total: whatever is written there. */
export function nodeRow(node: KubeObject & { readonly spec?: unknown }, now: Date): NodeRow {
  const { name, labels: marks = {}, annotations: notes = {} } = node.metadata;
  const heardMs = now.getTime() - Date.parse(beatOf(notes[annotations.heartbeat]));
  const reason: unknown = notes[unschedulableReason];
  // The mark stays as it was when an agent has died.
  const isAway = !(heardMs < silentMs);
  const agent = isAway ? 'away' : marks[labels.schedulable] === 'true' ? 'ready' : 'not-ready';
  return {
    ...{ name, agent, isCordoned: memberAt(node, 'spec', 'unschedulable') === true },
    ...(agent === 'not-ready' && typeof reason === 'string' && reason !== '' && { reason }),
  };
}

/** Go's time in quotes, as upstream writes it. */
function beatOf(annotation: unknown): string {
  return typeof annotation === 'string' ? annotation.replaceAll('"', '') : '';
}
