import type { VirtualMachineRestore } from '../../api/index.ts';
import { rfc3339 } from '../../base/index.ts';
import { withSaid } from '../snapshot-source/index.ts';
import type { Said } from './plan.ts';

type Status = NonNullable<VirtualMachineRestore['status']>;

/** The status as it shall be stored now. `failure`: of a step, in words, which counts before what the plan says. Pure. */
export function restoreStatusOf(
  { status: old }: VirtualMachineRestore,
  { restores, deletedDataVolumes, isComplete, ...conditions }: Said,
  failure: string | undefined,
  now: Date,
): Status {
  const time = rfc3339(now);
  const base: Status = { ...old, complete: old?.complete ?? false };
  if (failure !== undefined) {
    const said = { progressing: ['False', failure], ready: ['False', failure] } as const;
    return { ...base, conditions: withSaid(old?.conditions, said, time) };
  }
  return {
    ...base,
    ...(restores && { restores: [...restores] }),
    ...(deletedDataVolumes && deletedDataVolumes.length > 0 && { deletedDataVolumes: [...deletedDataVolumes] }),
    ...(isComplete && { complete: true, restoreTime: time }),
    conditions: withSaid(old?.conditions, conditions, time),
  };
}
