import type { VmiIdentity } from '../domain/vmi-json.ts';

/** A Kubernetes event that the agent records on the VMI (spec 21 §1.2). */
export interface VmiEvent {
  readonly reason: 'GuestPanicked' | 'IOerror' | 'GuestAgentPingFailed';
  readonly type: 'Warning' | 'Normal';
  readonly message: string;
}

export function encodeVmiEvent(event: VmiEvent, { namespace, name, uid }: VmiIdentity): Buffer {
  const involvedObject = { kind: 'VirtualMachineInstance', apiVersion: 'kubevirt.io/v1', namespace, name, uid };
  const { reason, type, message } = event;
  return Buffer.from(JSON.stringify({ metadata: {}, involvedObject, reason, type, message, source: {} }));
}
