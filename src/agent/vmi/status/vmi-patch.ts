import type { VirtualMachineInstance } from '../../../api/index.ts';
import { applyMergePatch } from '../../../base/index.ts';
import type { VmiPatch } from '../decide/index.ts';
import { putCondition, removeCondition } from './conditions.ts';

/** Puts a rule's change on the object, in place; `vmi.status` may be another object then. Fields it does not name stay as they are. */
export function applyPatch(vmi: VirtualMachineInstance, patch: VmiPatch | undefined, now: string): void {
  if (!patch) return;
  const { metadata } = vmi;
  if (patch.labels) metadata.labels = applyMergePatch(metadata.labels, patch.labels) as Record<string, string>;
  if (patch.annotations)
    metadata.annotations = applyMergePatch(metadata.annotations, patch.annotations) as Record<string, string>;
  vmi.status ??= {};
  if (patch.status) Object.assign(vmi, { status: applyMergePatch(vmi.status, patch.status) });
  for (const type of patch.removeConditions ?? []) removeCondition(vmi.status, type);
  for (const condition of patch.setConditions ?? []) putCondition(vmi.status, condition, now);
}
