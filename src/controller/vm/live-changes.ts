import {
  findCondition,
  isBeingDeleted,
  isFinal,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { type LiveChange, type LiveRule, type Rollout, stagedMessage } from './live-change.ts';
import { cpuResize, memoryResize } from './resize.ts';
import { affinityChange, tolerationsChange } from './scheduling.ts';
import { volumeMigration } from './volume-migration.ts';

/** In upstream's order (sync in pkg/virt-controller/watch/vm/vm.go). */
const rules: readonly LiveRule[] = [cpuResize, affinityChange, tolerationsChange, memoryResize, volumeMigration];

/**
 * What follows from a template that wants other CPUs, other memory or other nodes than the running VMI. `isChanged`: other fields of the
 * template need a restart; undefined where it is not known, and only the condition says so.
 */
export function liveChanges(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  rollout: Rollout,
  isChanged?: boolean,
): readonly LiveChange[] {
  if (!vmi || isFinal(vmi) || isBeingDeleted(vmi) || isBeingDeleted(vm)) return [];
  const all = rules.flatMap((rule) => rule(vm, vmi, rollout) ?? []);
  const isStaged = isChanged ?? findCondition(vm.status?.conditions, 'RestartRequired')?.message === stagedMessage;
  return isStaged ? all.filter(({ kind }) => kind === 'restart') : all;
}
