import type {
  Condition,
  KubeObject,
  SnapshotIndication,
  VirtualMachine,
  VirtualMachineClone,
  VirtualMachineRestore,
  VirtualMachineSnapshot,
  VirtualMachineSnapshotContent,
} from '../../api/index.ts';
import { fieldsOf, listOfFields, textOf } from './json-fields.ts';
import type { Tone } from './row-model.ts';
import type { SnapshotFacts } from './snapshot-calls.ts';
import { freeName } from './words.ts';

export interface State {
  readonly text: string;
  readonly tone: Tone;
}

/** A snapshot as its table shows it. */
export interface SnapshotLine {
  readonly name: string;
  /** RFC 3339; absent: it is not taken yet. */
  readonly at?: string;
  readonly state: State;
  /** Why it is as it is; empty: all is well. */
  readonly problem: string;
  /** Of volumes, with their sizes. */
  readonly disks: readonly string[];
  /** Volumes of the VM that are not in it. */
  readonly missing: readonly string[];
  /** How the machine was, in words. */
  readonly how: string;
  readonly isReady: boolean;
}

/** A restore or a clone: what is made of a snapshot, or of the VM itself. */
export interface UseLine {
  readonly kind: 'restores' | 'clones';
  readonly name: string;
  /** The machine that is made; absent: this one is what it is again. */
  readonly makes?: string;
  /** Empty: of the machine as it was then. */
  readonly snapshot: string;
  readonly at: string;
  readonly state: State;
  readonly problem: string;
  readonly isOver: boolean;
}

const indications: Readonly<Record<SnapshotIndication, string>> = {
  Online: 'while it ran',
  GuestAgent: 'its agent held the file systems still',
  NoGuestAgent: 'no agent in the guest: as after a loss of power',
  QuiesceTimeout: 'the guest went on before all was copied: as after a loss of power',
  Paused: 'while it was paused',
  PartialSnapshot: 'not all its disks',
};

/** The newest first. */
export function snapshotLines({ snapshots, contents }: SnapshotFacts): readonly SnapshotLine[] {
  const known = new Map(contents.map((content) => [content.metadata.name, content]));
  return [...snapshots].sort(byAge).map((snapshot) => snapshotLine(snapshot, known));
}

function snapshotLine(
  snapshot: VirtualMachineSnapshot,
  contents: ReadonlyMap<string, VirtualMachineSnapshotContent>,
): SnapshotLine {
  const { metadata, status } = snapshot;
  const content = contents.get(status?.virtualMachineSnapshotContentName ?? '');
  const at = status?.creationTime;
  const said = Array.isArray(status?.indications) ? status.indications : [];
  // A running guest without an agent is not said twice.
  const how = said.filter((each) => each !== 'Online' || said.length === 1);
  return {
    name: metadata.name,
    ...(typeof at === 'string' && { at }),
    state: stateOf(snapshot),
    problem: problemOf(snapshot),
    disks: listOfFields(content?.spec?.volumeBackups).map(diskText),
    missing: (status?.snapshotVolumes?.excludedVolumes ?? []).map(textOf),
    how: how.map((each) => indications[each] ?? textOf(each)).join('; ') || (status ? 'while it did not run' : ''),
    isReady: status?.readyToUse === true && metadata.deletionTimestamp === undefined,
  };
}

function diskText(backup: Readonly<Record<string, unknown>>): string {
  const claim = fieldsOf(fieldsOf(backup.persistentVolumeClaim).spec);
  const size = textOf(fieldsOf(fieldsOf(claim.resources).requests).storage);
  return [textOf(backup.volumeName), size].filter(Boolean).join(' ');
}

function stateOf({ metadata, status }: VirtualMachineSnapshot): State {
  if (metadata.deletionTimestamp !== undefined) return { text: 'Being deleted', tone: 'busy' };
  if (status?.phase === 'Failed') return { text: 'Failed', tone: 'bad' };
  if (status?.readyToUse === true) return { text: 'Ready', tone: 'good' };
  if (status?.phase === 'Succeeded') return { text: 'Not ready', tone: status.error ? 'bad' : 'busy' };
  return { text: 'Being taken', tone: 'busy' };
}

function problemOf({ status }: VirtualMachineSnapshot): string {
  const { error, phase } = status ?? {};
  if (error?.message) return error.message;
  if (phase === 'Failed') return saidBy(status?.conditions, 'Failure');
  return phase === 'Succeeded' || status === undefined ? '' : saidBy(status.conditions, 'Progressing', 'False');
}

/** Upstream puts sentences into the reason. */
function saidBy(conditions: readonly Condition[] | undefined, type: string, status?: string): string {
  const found = listOfFields(conditions).find((each) => each.type === type);
  if (!found || (status !== undefined && found.status !== status)) return '';
  return textOf(found.message) || textOf(found.reason);
}

/** The newest first. */
export function useLines({ restores, clones }: SnapshotFacts): readonly UseLine[] {
  return [...restores.map(restoreLine), ...clones.map(cloneLine)].sort((one, other) => (one.at < other.at ? 1 : -1));
}

function restoreLine({ metadata, spec, status }: VirtualMachineRestore): UseLine {
  const failure = saidBy(status?.conditions, 'Failure');
  const isDone = status?.complete === true;
  return {
    ...{ kind: 'restores', name: metadata.name, snapshot: spec.virtualMachineSnapshotName },
    at: metadata.creationTimestamp ?? '',
    state: progressOf(metadata.deletionTimestamp, isDone, failure !== ''),
    problem: isDone ? '' : failure || saidBy(status?.conditions, 'Progressing'),
    isOver: isDone || failure !== '',
  };
}

const clonePhases: Readonly<Record<string, string>> = {
  SnapshotInProgress: 'Its disks are copied',
  CreatingTargetVM: 'The machine is made',
  RestoreInProgress: 'Its disks are filled',
};

function cloneLine({ metadata, spec, status }: VirtualMachineClone): UseLine {
  const phase = status?.phase ?? '';
  const hasFailed = phase === 'Failed';
  const isDone = phase === 'Succeeded';
  const makes = status?.targetName ?? spec.target?.name;
  return {
    ...{ kind: 'clones', name: metadata.name, at: metadata.creationTimestamp ?? '' },
    ...(makes && { makes }),
    snapshot: spec.source.kind === 'VirtualMachineSnapshot' ? spec.source.name : '',
    state: progressOf(metadata.deletionTimestamp, isDone, hasFailed),
    problem: isDone ? '' : (clonePhases[phase] ?? saidBy(status?.conditions, 'Ready', 'False')),
    isOver: isDone || hasFailed,
  };
}

function progressOf(deleted: string | undefined, isDone: boolean, hasFailed: boolean): State {
  if (isDone) return { text: 'Done', tone: 'good' };
  if (hasFailed) return { text: 'Failed', tone: 'bad' };
  return { text: deleted === undefined ? 'Under way' : 'Given up', tone: 'busy' };
}

function byAge({ metadata: one }: KubeObject, { metadata: other }: KubeObject): number {
  return (one.creationTimestamp ?? '') < (other.creationTimestamp ?? '') ? 1 : -1;
}

/** What a snapshot of the VM as it is now would have, line by line. */
export function whatIsKept(vm: VirtualMachine, isLive: boolean, hasAgent: boolean): readonly string[] {
  const volumes = listOfFields(fieldsOf(vm.spec?.template?.spec).volumes);
  const isOnClaim = (volume: object) => 'persistentVolumeClaim' in volume || 'dataVolume' in volume;
  const [kept, left] = [volumes.filter(isOnClaim), volumes.filter((volume) => !isOnClaim(volume))];
  const names = (some: typeof volumes) => some.map(({ name }) => textOf(name)).join(', ');
  const running = hasAgent
    ? 'It runs: its agent holds the file systems still for a moment.'
    : 'It runs, without an agent that could be asked: its disks are kept as after a loss of power.';
  return [
    kept.length > 0
      ? `Kept: its definition, and its disks ${names(kept)}.`
      : 'Kept: its definition. It has no disk on a claim.',
    ...(left.length > 0 ? [`Not kept, as it is on no claim: ${names(left)}.`] : []),
    ...(isLive && kept.length > 0
      ? [
          running,
          'Where a disk in use cannot be copied, stop the machine first. Else the snapshot waits five minutes for its end: it can be restarted then, but not stopped.',
        ]
      : []),
  ];
}

/** What becomes of the VM, line by line. */
export function whatIsRestored({ disks, missing }: SnapshotLine, isLive: boolean): readonly string[] {
  return [
    disks.length > 0
      ? `New claims with what was on its disks then (${disks.join(', ')}) take the place of those that it has now.`
      : 'No disk is in the snapshot: those that it has now stay as they are.',
    'Its definition is what it was then: CPUs, memory, devices.',
    ...(disks.length > 0
      ? ['Claims that it has now stay, unless they are of its own templates: those go, with what was written since.']
      : []),
    ...(missing.length > 0 ? [`Not in the snapshot: ${missing.join(', ')}.`] : []),
    isLive ? 'It has to be stopped for it, and is not started by it.' : 'It is not started by it.',
  ];
}

/** Free among `taken`: `demo-2026-01-02-0304`, by the clock of who looks. */
export function snapshotName(vm: string, now: Date, taken: ReadonlySet<string>): string {
  const two = (part: number) => String(part).padStart(2, '0');
  const day = [now.getFullYear(), two(now.getMonth() + 1), two(now.getDate())].join('-');
  return freeName(`${vm}-${day}-${two(now.getHours())}${two(now.getMinutes())}`, (name) => taken.has(name));
}
