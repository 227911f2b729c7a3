import {
  findCondition,
  isBeingDeleted,
  labels,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachinePool,
} from '../../api/index.ts';
import { revisionName } from './make-vm.ts';
import type { Template } from './revisions.ts';
import { sameTemplate } from './same-template.ts';
import { chosenBy, maxUnavailableOf, strategyOf } from './strategies.ts';

type Vm = VirtualMachine;
type Vmi = VirtualMachineInstance;

/** What a changed template asks for. */
export interface Updates {
  /** VMs that are not as the template wants them. */
  readonly outdated: readonly Vm[];
  /** Guests that run by an earlier template: their VMIs are deleted, and their VMs start them anew. */
  readonly restart: readonly Vmi[];
  /** VMs whose DataVolumes are others now: they are made anew. */
  readonly recreate: readonly Vm[];
  /** VMIs that are as the template wants them, and do not say so. */
  readonly relabel: readonly { readonly vmi: Vmi; readonly revision: string }[];
  /** Guests that have to wait, since too many are unavailable. */
  readonly waiting: number;
}

export interface UpdateFacts {
  readonly pool: VirtualMachinePool;
  readonly vms: readonly Vm[];
  readonly vmiOf: (vm: Vm) => Vmi | undefined;
  /** Those that are there, by name. */
  readonly revisions: ReadonlyMap<string, Template>;
  readonly random: () => number;
}

export const revisionOf = ({ metadata }: Vm | Vmi) => metadata.labels?.[labels.poolRevision];

/** Upstream: update, proactiveUpdate and isOutdatedVMI in pkg/virt-controller/watch/pool/pool.go. */
export function updatesOf({ pool, vms, vmiOf, revisions, random }: UpdateFacts): Updates {
  const none = { outdated: [], restart: [], recreate: [], relabel: [], waiting: 0 };
  const strategy = strategyOf(pool.spec.updateStrategy);
  if (strategy === 'unmanaged') return none;
  const policy = pool.spec.updateStrategy?.proactive?.selectionPolicy;
  const staying = vms.filter((vm) => !isBeingDeleted(vm));
  const isOutdated = (vm: Vm) => {
    const template = revisions.get(revisionOf(vm) ?? '');
    if (template && revisionOf(vm) === revisionName(pool)) return false;
    return !template || !sameTemplate(template, pool.spec.virtualMachineTemplate);
  };
  const chosen = chosenBy(policy, staying, random);
  const outdated = chosen.filter(isOutdated);
  if (strategy === 'opportunistic') return { ...none, outdated };
  const guests = chosen
    .filter((vm) => !outdated.includes(vm))
    .flatMap((vm) => {
      const vmi = vmiOf(vm);
      return vmi && !isBeingDeleted(vmi) ? [{ vm, vmi, change: changeOf(vm, vmi, revisions) }] : [];
    });
  const disturbed = guests.filter(({ change }) => change === 'restart' || change === 'recreate');
  // One that is not available loses nothing by it, and may be so because of the earlier template.
  const lame = disturbed.filter(({ vmi }) => !isAvailable(vmi));
  const unavailable = staying.filter((vm) => !isAvailable(vmiOf(vm))).length;
  const room = Math.max(0, (maxUnavailableOf(pool.spec) ?? 1) - unavailable);
  const healthy = disturbed.filter(({ vmi }) => isAvailable(vmi));
  const now = [...lame, ...healthy.slice(0, room)];
  return {
    outdated,
    restart: now.flatMap(({ vmi, change }) => (change === 'restart' ? [vmi] : [])),
    recreate: now.flatMap(({ vm, change }) => (change === 'recreate' ? [vm] : [])),
    relabel: guests.flatMap(({ vm, vmi, change }) =>
      change === 'relabel' ? [{ vmi, revision: revisionOf(vm) ?? '' }] : [],
    ),
    waiting: disturbed.length - now.length,
  };
}

/** The VM's revision says what its guest shall be, the VMI's what it was started from. */
function changeOf(
  vm: Vm,
  vmi: Vmi,
  revisions: ReadonlyMap<string, Template>,
): 'none' | 'restart' | 'recreate' | 'relabel' {
  const [wanted, present] = [revisionOf(vm), revisionOf(vmi)];
  if (wanted === present) return 'none';
  const [after, before] = [revisions.get(wanted ?? ''), revisions.get(present ?? '')];
  if (!after) return 'none';
  if (!before) return 'restart';
  if (!sameTemplate(before.spec.dataVolumeTemplates, after.spec.dataVolumeTemplates)) return 'recreate';
  return sameTemplate(before.spec.template, after.spec.template) ? 'relabel' : 'restart';
}

function isAvailable(vmi: Vmi | undefined): boolean {
  if (!vmi || isBeingDeleted(vmi) || vmi.status?.phase !== 'Running') return false;
  return findCondition(vmi.status.conditions, 'Ready')?.status === 'True';
}
