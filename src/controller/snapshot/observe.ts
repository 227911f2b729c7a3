import {
  contentNameOf,
  isMigrating,
  type Key,
  namesVirtualMachine,
  type Pod,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
} from '../../api/index.ts';
import { type Clock, listOf, memberAt } from '../../base/index.ts';
import type { ReadYourWrites } from '../../reconcile/index.ts';
import { orUnclear } from '../reconciling.ts';
import {
  guestOf,
  isEnding,
  isLockedBy,
  isSnapshotOver,
  keepsState,
  markOf,
  msUntilDeadline,
  type VolumeDeps,
  type VolumeFacts,
  vmiOf,
  volumeFacts,
} from '../snapshot-source/index.ts';
import type { SnapshotObservation, SourceFacts } from './observation.ts';

export interface ObserveDeps extends VolumeDeps {
  readonly snapshots: ReadYourWrites<VirtualMachineSnapshot>;
  readonly contents: ReadYourWrites<VirtualMachineSnapshotContent>;
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'get'>;
  /** Launcher pods, and those that plug disks in. */
  readonly pods: { list(): readonly Pod[] };
  readonly clock: Clock;
}

export async function observeSnapshot(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<SnapshotObservation> {
  const snapshot = deps.snapshots.get(key);
  const now = deps.clock.now();
  if (!snapshot) return { kind: 'absent', key, uid: '', now, marked: markedBy(key, deps) };
  const base = { key, uid: snapshot.metadata.uid ?? '', now, snapshot };
  const { namespace } = snapshot.metadata;
  const content = deps.contents.get(`${namespace}/${contentNameOf(snapshot)}`);
  const read = async (): Promise<SnapshotObservation> => ({
    kind: 'present',
    ...base,
    content,
    source: await sourceOf(snapshot, content, now, deps, signal),
    problem: problemOf(snapshot),
    leftMs: msUntilDeadline(snapshot, now),
  });
  return orUnclear(base, read, signal);
}

/** One whose snapshot was taken away without its finalizer stays locked otherwise. */
function markedBy(key: Key, { vms }: ObserveDeps): VirtualMachine[] {
  return vms.list().filter((vm) => `${vm.metadata.namespace}/${markOf(vm, 'snapshotInProgress')}` === key);
}

function problemOf({ spec }: VirtualMachineSnapshot): string | undefined {
  if (namesVirtualMachine(spec.source)) return undefined;
  const { apiGroup = '', kind = '' } = spec.source ?? {};
  return `spec.source: a snapshot is of a VirtualMachine of kubevirt.io, and not of a ${kind} of ${apiGroup || 'no group'}`;
}

async function sourceOf(
  snapshot: VirtualMachineSnapshot,
  content: VirtualMachineSnapshotContent | undefined,
  now: Date,
  deps: ObserveDeps,
  signal: AbortSignal,
): Promise<SourceFacts | undefined> {
  const { namespace, name } = snapshot.metadata;
  const vm = problemOf(snapshot) === undefined ? deps.vms.get(`${namespace}/${snapshot.spec.source.name}`) : undefined;
  const known = snapshot.status?.sourceUID;
  if (!vm || (known && known !== vm.metadata.uid)) return undefined;
  const vmi = vmiOf(vm, deps.vmis);
  const guest = guestOf(vmi);
  const isLocked = isLockedBy(vm, name);
  const isAsked = content === undefined && !isSnapshotOver(snapshot) && !isEnding(snapshot, now);
  const volumes = isAsked ? await volumeFacts(vm, deps, signal) : [];
  const seen = { volumes, isOnline: guest.isOnline, isMoving: vmi !== undefined && isMigrating(vmi) };
  // Who has locked it may have ended before the content was written: what is not known of a volume now would leave it out.
  const openProblem = () => (isLocked ? volumeProblem(vm, volumes) : lockProblem(vm, snapshot, seen, deps));
  const isMarked = markOf(vm, 'snapshotInProgress') === name;
  return { vm, guest, isLocked, isMarked, volumes, problem: isAsked ? openProblem() : undefined };
}

interface Seen {
  readonly volumes: readonly VolumeFacts[];
  readonly isOnline: boolean;
  readonly isMoving: boolean;
}

function lockProblem(
  vm: VirtualMachine,
  { metadata }: VirtualMachineSnapshot,
  { volumes, isOnline, isMoving }: Seen,
  { pods }: ObserveDeps,
): string | undefined {
  const other = markOf(vm, 'snapshotInProgress');
  const restore = markOf(vm, 'restoreInProgress');
  if (vm.metadata.deletionTimestamp) return `source ${vm.metadata.name} is being deleted`;
  if (other !== undefined && other !== metadata.name) return `snapshot "${other}" in progress`;
  if (restore !== undefined) return `restore "${restore}" in progress`;
  // With it the state moves to another claim, and the one that it is on now goes.
  if (isMoving && keepsState(vm)) return `source ${vm.metadata.name} is being migrated`;
  const unready = volumeProblem(vm, volumes);
  if (unready !== undefined) return unready;
  if (isOnline) return undefined;
  const claims = new Set(volumes.flatMap(({ claimName }) => claimName ?? []));
  const users = pods.list().filter((pod) => pod.metadata.namespace === metadata.namespace && hasClaim(pod, claims));
  if (users.length === 0) return undefined;
  return `source is offline but ${users.length} pods using PVCs ${[...claims].join(', ')}`;
}

/** Of a volume that has no snapshot yet, or of which it is not known whether it can have one. */
function volumeProblem({ metadata }: VirtualMachine, volumes: readonly VolumeFacts[]): string | undefined {
  for (const { support } of volumes) {
    if (support.kind === 'waits') return `source ${metadata.namespace}/${metadata.name} ${support.why}`;
  }
  return undefined;
}

function hasClaim({ spec, status }: Pod, claims: ReadonlySet<string>): boolean {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return false;
  return listOf(spec.volumes).some((volume) => {
    const name = memberAt(volume, 'persistentVolumeClaim', 'claimName');
    return typeof name === 'string' && claims.has(name);
  });
}
