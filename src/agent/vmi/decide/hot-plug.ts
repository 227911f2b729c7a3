import { diskTargetsOf, type HotPlugVolume, hotPlugVolumesOf, isVolumeOf } from '../../../api/index.ts';
import { memberAt } from '../../../base/index.ts';
import type { Facts } from './facts.ts';

/** What is to be done about volumes that come and go while the guest runs; pure. */

/** From these a volume becomes MountedToPod (pkg/virt-handler/vm.go, `canUpdateToMounted`). */
const mountable: readonly unknown[] = ['Bound', 'Pending', 'AttachedToNode'];
const ready: readonly unknown[] = ['Ready', 'MountedToPod'];

/** Undefined: a build that plugs none, or it could not look. */
function mountedOf({ observation }: Facts): readonly string[] | undefined {
  return observation.statusFacts.mountedVolumes;
}

/** Some volume does not let the guest start yet, as upstream's `hotplugVolumesReady` has it. */
export function awaitsVolumes({ vmi }: Facts): boolean {
  if (!vmi) return false;
  const { volumes, utilityVolumes } = vmi.spec ?? {};
  const asksForAny =
    (Array.isArray(utilityVolumes) && utilityVolumes.length > 0) ||
    volumes?.some(
      ({ persistentVolumeClaim, dataVolume, memoryDump }) =>
        persistentVolumeClaim?.hotpluggable || dataVolume?.hotpluggable || memoryDump?.hotpluggable,
    );
  if (asksForAny && !vmi.status?.volumeStatus?.length) return true;
  return hotPlugVolumesOf(vmi).some(({ isWanted, phase }) => isWanted && !ready.includes(phase));
}

/** Attached to this node, and not in the launcher yet. */
export function volumesToPlug(facts: Facts): HotPlugVolume[] {
  const mounted = mountedOf(facts);
  if (!facts.vmi || !mounted) return [];
  return hotPlugVolumesOf(facts.vmi).filter(
    ({ name, isWanted, isAttached, attachPodUid, phase }) =>
      isWanted && !isAttached && attachPodUid !== '' && mountable.includes(phase) && !mounted.includes(name),
  );
}

/** In the launcher, and not asked for any more; `isHeld`: the domain still has its disk. */
export function volumesToUnplug(facts: Facts): { readonly name: string; readonly isHeld: boolean }[] {
  const { vmi, domainState } = facts;
  if (!vmi || domainState.kind !== 'alive') return [];
  const targets = diskTargetsOf(domainState.domain);
  const old = (mountedOf(facts) ?? []).filter((name) => !isVolumeOf(vmi, name));
  return old.map((name) => ({ name, isHeld: targets.has(name) }));
}

/** Why volumes that are awaited do not come, by the last try. */
export function plugProblem(facts: Facts): string | undefined {
  const failed = facts.observation.hostFacts['hotplug-volumes']?.failed ?? {};
  const texts = volumesToPlug(facts).flatMap(({ name }) => failed[name] ?? []);
  return texts.length > 0 ? texts.join('; ') : undefined;
}

/** In words, while the guest is on its way to another node. */
export function heldUpByMigration(facts: Facts): string | undefined {
  const plug = volumesToPlug(facts).map(({ name }) => name);
  const unplug = volumesToUnplug(facts).map(({ name }) => name);
  const texts = [
    ...(plug.length > 0 ? [`not plugged into the guest: ${plug.join(', ')}`] : []),
    ...(unplug.length > 0 ? [`not unplugged: ${unplug.join(', ')}`] : []),
  ];
  if (texts.length === 0) return undefined;
  return `while the guest migrates, volumes are ${texts.join('; ')}. It is done when the migration is over.`;
}

export interface DumpOrder {
  readonly volume: string;
  readonly file: string;
}

/** A dump that was begun by the status, and of which the launcher has not told yet. */
export function dumpToOrder({ vmi, domainState }: Facts): DumpOrder | undefined {
  if (!vmi || domainState.kind !== 'alive') return undefined;
  const told = domainState.domain.Spec?.Metadata?.KubeVirt?.MemoryDump?.FileName;
  for (const { name, phase, memoryDumpVolume } of vmi.status?.volumeStatus ?? []) {
    const file = memberAt(memoryDumpVolume, 'targetFileName');
    if (phase !== 'MemoryDumpInProgress' || typeof file !== 'string' || file === told) continue;
    // It becomes a path in the launcher.
    if (file !== '' && !file.includes('/') && !name.includes('/')) return { volume: name, file };
  }
  return undefined;
}

/** What follows a sync is looked at as soon as the launcher has the VMI. */
export function isPlugging(facts: Facts): boolean {
  return volumesToPlug(facts).length > 0 || volumesToUnplug(facts).length > 0 || dumpToOrder(facts) !== undefined;
}
