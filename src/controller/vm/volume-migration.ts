import type { VirtualMachine, VirtualMachineInstance, Volume } from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import { listed, named } from './by-name.ts';
import { type LiveChange, restart } from './live-change.ts';

/**
 * Volumes of a running guest are not copied to other claims: they stay where they are, and the user is told, for the next start takes
 * the new claims as they are (handleVolumeUpdateRequest of pkg/virt-controller/watch/vm/vm.go moves them).
 */
export function volumeMigration(vm: VirtualMachine, vmi: VirtualMachineInstance): LiveChange | undefined {
  const strategy = vm.spec.updateVolumesStrategy ?? 'Replacement';
  if (strategy === 'Replacement') return undefined;
  if (strategy !== 'Migration') {
    const message = `spec.updateVolumesStrategy ${JSON.stringify(strategy)} is unknown: use Replacement`;
    return { kind: 'wait', reason: 'VolumesUpdateError', message };
  }
  const running = listed(vmi.spec.volumes);
  const moved = listed(vm.spec.template?.spec?.volumes).filter((wanted) => {
    const volume = named(running, wanted.name);
    return volume !== undefined && isMoved(volume, wanted, vm);
  });
  if (moved.length === 0) return undefined;
  const names = moved.map(({ name }) => name).join(', ');
  const what = `spec.updateVolumesStrategy Migration is not supported: volumes of the guest that runs stay as they are (${names})`;
  const advice = 'set the old claims again, or stop the VM and copy what is on them before it starts from the new ones';
  return restart(`${what}. The next start takes the new claims as they are: ${advice}`);
}

/** What is on it was to be copied to another claim. */
export function isMoved(volume: Volume, wanted: Volume, { spec }: VirtualMachine): boolean {
  const isClaim = Boolean(wanted.persistentVolumeClaim || wanted.dataVolume);
  return spec.updateVolumesStrategy === 'Migration' && isClaim && !sameJson(volume, wanted);
}
