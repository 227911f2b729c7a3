import { shortened } from '../../base/index.ts';
import type { NodeProblem } from '../node-ports.ts';

type Reason = Pick<NodeProblem, 'reason' | 'message'>;

/** Ours, not upstream's: why the node takes no VMIs. Absent while it does. */
export const reasonKey = 'virt-handler.kubevirt.io/unschedulable-reason';

export const starting: Reason = { reason: 'AgentStarting', message: 'the node agent has not read all it needs yet' };
export const leaving: Reason = {
  reason: 'AgentLeaving',
  message: 'the node agent leaves; running VMs go on, and its successor takes new ones',
};

const maxLength = 1_000;

/** `Reason: message; Reason: message` */
export function reasonText(reasons: readonly Reason[]): string {
  return shortened(reasons.map(({ reason, message }) => `${reason}: ${message}`).join('; '), maxLength);
}

/** The first word of such a text. */
export function reasonOf(text: string | null | undefined): string | null | undefined {
  return typeof text === 'string' ? text.split(':', 1)[0] : text;
}
