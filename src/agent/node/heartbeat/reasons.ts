import { shortened } from '../../../base/index.ts';
import type { NodeProblem } from '../ports.ts';

/** Why the node takes no VMIs. */
export type NodeReason = Pick<NodeProblem, 'reason' | 'message'>;

/** Ours, not upstream's: why the node takes no VMIs. Absent while it does. */
export const reasonKey = 'virt-handler.kubevirt.io/unschedulable-reason';

export const starting: NodeReason = {
  reason: 'AgentStarting',
  message: 'the node agent has not read all it needs yet',
};
export const leaving: NodeReason = {
  reason: 'AgentLeaving',
  message: 'the node agent leaves; running VMs go on, and its successor takes new ones',
};

const maxLength = 1_000;

/** `Reason: message; Reason: message` */
export function reasonText(reasons: readonly NodeReason[]): string {
  return shortened(reasons.map(({ reason, message }) => `${reason}: ${message}`).join('; '), maxLength);
}

/** The first word of such a text. */
export function reasonOf(text: string | null | undefined): string | null | undefined {
  return typeof text === 'string' ? text.split(':', 1)[0] : text;
}

/** Another one of these is published at once, another reason for the same may wait. */
export function phaseOf([first]: readonly NodeReason[]): 'ready' | 'starting' | 'leaving' | 'notReady' {
  if (first === undefined) return 'ready';
  if (first === starting) return 'starting';
  return first === leaving ? 'leaving' : 'notReady';
}

export function isSameReasons(some: readonly NodeReason[], others: readonly NodeReason[]): boolean {
  return some.length === others.length && some.every(({ reason }, index) => reason === others[index]?.reason);
}
