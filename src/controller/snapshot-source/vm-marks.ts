import { finalizers, keyOf, resources, type VirtualMachine } from '../../api/index.ts';
import { type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { ReadYourWrites } from '../../reconcile/index.ts';

/** What is under way with a VM: a snapshot of it, or a restore into it. */
export type VmMark = 'snapshotInProgress' | 'restoreInProgress';

export function markOf({ status }: VirtualMachine, mark: VmMark): string | undefined {
  const name = status?.[mark];
  return typeof name === 'string' && name !== '' ? name : undefined;
}

/** By the snapshot of this name, with all that belongs to it. */
export function isLockedBy(vm: VirtualMachine, snapshot: string): boolean {
  return markOf(vm, 'snapshotInProgress') === snapshot && hasSourceFinalizer(vm);
}

const hasSourceFinalizer = ({ metadata }: VirtualMachine) =>
  metadata.finalizers?.includes(finalizers.snapshotSource) === true;

export interface MarkDeps {
  readonly client: Pick<KubeClient, 'patch'>;
  readonly vms: ReadYourWrites<VirtualMachine>;
}

const type = resources.virtualMachines;

/**
 * Undefined takes the mark off. The API server takes it only onto the VM that was decided on. False: that one is another one now, which
 * whoever asked hears of. Gives the VM as it is then.
 */
export async function setMark(
  vm: VirtualMachine,
  mark: VmMark,
  name: string | undefined,
  { client, vms }: MarkDeps,
  signal: AbortSignal,
): Promise<VirtualMachine | undefined> {
  const more = name === undefined && mark === 'restoreInProgress' ? { memoryDumpRequest: null } : {};
  const body = { metadata: versionOf(vm), status: { [mark]: name ?? null, ...more } };
  let newer: VirtualMachine | undefined;
  const isThere = await writeIfThere(
    client.patch<VirtualMachine>(type, vm.metadata, body, 'merge', { subresource: 'status', signal }).then((answer) => {
      newer = answer;
      vms.saw(keyOf(vm), vm, answer);
    }),
  );
  return isThere ? newer : undefined;
}

/** The same for the finalizer that keeps a VM while a snapshot of it is taken. */
export async function setSourceFinalizer(
  vm: VirtualMachine,
  isWanted: boolean,
  { client, vms }: MarkDeps,
  signal: AbortSignal,
): Promise<VirtualMachine | undefined> {
  if (hasSourceFinalizer(vm) === isWanted) return vm;
  const others = (vm.metadata.finalizers ?? []).filter((each) => each !== finalizers.snapshotSource);
  const body = {
    metadata: { ...versionOf(vm), finalizers: isWanted ? [...others, finalizers.snapshotSource] : others },
  };
  let newer: VirtualMachine | undefined;
  const isThere = await writeIfThere(
    client.patch<VirtualMachine>(type, vm.metadata, body, 'merge', { signal }).then((answer) => {
      newer = answer;
      vms.saw(keyOf(vm), vm, answer);
    }),
  );
  return isThere ? newer : undefined;
}

const versionOf = ({ metadata: { uid, resourceVersion } }: VirtualMachine) => ({ uid, resourceVersion });
