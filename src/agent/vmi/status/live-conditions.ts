import { findCondition, type VirtualMachineInstance, type VmiStatus } from '../../../api/index.ts';
import type { StatusFacts } from '../observe/index.ts';
import type { VmiEvent } from '../ports.ts';
import { putCondition } from './conditions.ts';
import type { Migratability } from './migratable.ts';

/**
 * `LiveMigratable` and `StorageLiveMigratable`, which carry no times. Gives the warning about an eviction that cannot be
 * followed, when it becomes true: upstream repeats it in every reconcile and uses up the event budget of the object.
 */
export function setLiveMigratable(
  status: VmiStatus,
  { live, storage }: Migratability,
  { spec }: VirtualMachineInstance,
  { config }: StatusFacts,
): VmiEvent[] {
  const type = 'LiveMigratable';
  const before = findCondition(status.conditions, type)?.status;
  const condition = live
    ? ({ type, status: 'False', reason: live.reason, message: live.text } as const)
    : ({ type, status: 'True' } as const);
  putCondition(status, condition, null);
  setStorageMigratable(status, storage);
  const strategy = spec?.evictionStrategy ?? config.evictionStrategy;
  const isWanted = strategy === 'LiveMigrate' || (strategy === 'LiveMigrateIfPossible' && before === 'True');
  if (!live || before === 'False' || !isWanted) return [];
  const message = `EvictionStrategy is set but vmi is not migratable; ${live.text}`;
  return [{ type: 'Warning', reason: 'Migrated', message }];
}

function setStorageMigratable(status: VmiStatus, obstacles: Migratability['storage']): void {
  const type = 'StorageLiveMigratable';
  const message = obstacles.map(({ reason, text }) => `${reason}: ${text}`).join(', ');
  const condition =
    obstacles.length > 0
      ? ({ type, status: 'False', reason: 'NotMigratable', message } as const)
      : ({ type, status: 'True' } as const);
  putCondition(status, condition, null);
}
