import type { ExplainQuarantine } from '../../../api/index.ts';
import type { Observation } from '../observe/index.ts';
import type { VmiEvent } from '../ports.ts';

/** What the VMI asks for: another wish is another attempt. */
export function wishOf({ vmi, syncFingerprint }: Observation): string {
  if (!('vmi' in vmi)) return vmi.kind;
  const { metadata, status } = vmi.vmi;
  return [metadata.deletionTimestamp ? 'ends' : 'lives', status?.phase ?? '', syncFingerprint].join(' ');
}

/** What is observed of its domain: a start that fails goes through the same few states each time. */
export function stateOf({ domain, launcher }: Observation): string {
  const state =
    domain.kind === 'present' ? `${domain.domain.Status.Status}/${domain.domain.Status.Reason}` : domain.kind;
  return `${state} ${launcher.kind}`;
}

/** `latestMs`: no pause between two tries is longer; that of a start that fails is shorter, for example. Users match on the reason. */
export function crashLoopEvent({ failures, problem }: ExplainQuarantine, latestMs: number): VmiEvent {
  const message =
    `the same failure ${failures} times in a row: ${problem}. It is tried again by itself, each time after ` +
    `${Math.round(latestMs / 1000)} s at the latest, and at once when the VirtualMachineInstance changes; ` +
    '`virt-node why` on its node tells the whole story';
  return { type: 'Warning', reason: 'Quarantined', message };
}
