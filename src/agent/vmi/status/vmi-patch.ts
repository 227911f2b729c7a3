import type { VirtualMachineInstance } from '../../../api/index.ts';
import { isRecord } from '../../../base/index.ts';
import type { VmiPatch } from '../decide/index.ts';
import { putCondition, removeCondition } from './conditions.ts';

type Json = Record<string, unknown>;

/** Puts a rule's change on the object, in place. Fields it does not name stay as they are. */
export function applyPatch(vmi: VirtualMachineInstance, patch: VmiPatch | undefined, now: string): void {
  if (!patch) return;
  const { metadata } = vmi;
  if (patch.labels) metadata.labels = merged(metadata.labels, patch.labels) as Record<string, string>;
  if (patch.annotations)
    metadata.annotations = merged(metadata.annotations, patch.annotations) as Record<string, string>;
  vmi.status ??= {};
  if (patch.status) Object.assign(vmi, { status: merged(vmi.status, patch.status) });
  for (const type of patch.removeConditions ?? []) removeCondition(vmi.status, type);
  for (const condition of patch.setConditions ?? []) putCondition(vmi.status, condition, now);
}

/** JSON merge patch (RFC 7386): `null` removes, objects are merged, all else is replaced. */
function merged(before: unknown, patch: Readonly<Json>): Json {
  const result: Json = isRecord(before) ? before : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = isRecord(value) ? merged(result[name], value) : value;
  }
  return result;
}
