import { findCondition, type VirtualMachineInstance, type VmiStatus } from '../../../api/index.ts';
import { copyJson } from '../../../base/index.ts';
import { semanticEqual } from './semantic-equal.ts';

/**
 * What of the status a VMI can do without: when the API server does not take the whole, these are left as they were, one
 * alone or all, so that phase, labels, migration and the word about it still get through. In the order in which they are
 * suspected: what guests and launchers fill comes first.
 */
export const statusParts = [
  'guestOSInfo',
  'interfaces',
  'volumeStatus',
  'changedBlockTracking',
  'machine',
  'memory',
  'fsFreezeStatus',
  'selinuxContext',
  'conditions',
] as const;

export type StatusPart = (typeof statusParts)[number];

const guestParts: readonly StatusPart[] = ['guestOSInfo', 'interfaces'];

/** Conditions that must be reported whatever else is refused. */
const essentialConditions: readonly string[] = ['Synchronized', 'Paused'];

/** Puts the `parts` of `vmi` back to what they are in `stored`, in place; with `makeRoom` what guests fill goes altogether. */
export function restoreParts(
  vmi: VirtualMachineInstance,
  stored: VirtualMachineInstance,
  { parts, makeRoom }: { readonly parts: readonly string[]; readonly makeRoom: boolean },
): void {
  const before: Readonly<VmiStatus> = stored.status ?? {};
  vmi.status ??= {};
  if (makeRoom) for (const part of guestParts) delete vmi.status[part];
  for (const part of statusParts) {
    if (!parts.includes(part) || (makeRoom && guestParts.includes(part))) continue;
    if (part === 'conditions') vmi.status.conditions = restoredConditions(vmi.status, before);
    else if (before[part] === undefined) delete vmi.status[part];
    else Object.assign(vmi.status, { [part]: copyJson(before[part]) });
  }
}

/** The stored conditions in their order, but for the essential ones, which are as they are now. */
function restoredConditions({ conditions: now = [] }: VmiStatus, { conditions: before = [] }: Readonly<VmiStatus>) {
  const isEssential = ({ type }: { type: string }) => essentialConditions.includes(type);
  const kept = before.flatMap((condition) =>
    isEssential(condition) ? (findCondition(now, condition.type) ?? []) : [copyJson(condition)],
  );
  const fresh = now.filter((condition) => isEssential(condition) && !findCondition(before, condition.type));
  return [...kept, ...fresh];
}

/** The parts in which `vmi` differs from `stored`. */
export function changedParts(vmi: VirtualMachineInstance, stored: VirtualMachineInstance): StatusPart[] {
  return statusParts.filter((part) => {
    const one = copyJson(vmi);
    restoreParts(one, stored, { parts: [part], makeRoom: false });
    return !semanticEqual(one.status?.[part], vmi.status?.[part]);
  });
}
