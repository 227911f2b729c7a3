import { fileSize } from '../file-size.ts';
import type { NodeRow, VmRow } from '../rows.ts';
import { moveObstacle, moveUnderWay, targetsOf } from './move-model.ts';
import { capitalised, count, spaced } from './words.ts';

/** What a status means at a glance; said by a sign and by colour, never by colour alone. */
export type Tone = 'good' | 'busy' | 'paused' | 'off' | 'bad';

export type VmAction =
  | 'start'
  | 'stop'
  | 'restart'
  | 'pause'
  | 'unpause'
  | 'softreboot'
  | 'reset'
  | 'move'
  | 'cancel-move'
  | 'clone'
  | 'delete';

/** What who looks may do. */
export interface Rights {
  /** The server offers start and stop. */
  readonly canStart: boolean;
  /** The server passes on writes to the Kubernetes API. */
  readonly canWrite: boolean;
  readonly isLookOnly: boolean;
}

export interface ActionOffer {
  readonly action: VmAction;
  readonly label: string;
  /** What to ask before it is done; absent: nothing is lost by it. */
  readonly question?: string;
  /** The guest does not get to save anything. */
  readonly isHarsh?: true;
  /** On the button that agrees; the label unless given. */
  readonly yes?: string;
  /** Nodes to choose from. */
  readonly targets?: readonly string[];
}

const tones: Readonly<Record<string, Tone>> = {
  Running: 'good',
  Paused: 'paused',
  Stopped: 'off',
  Halted: 'off',
  Succeeded: 'off',
  Failed: 'bad',
  CrashLoopBackOff: 'bad',
  Unknown: 'bad',
};

/** The status of a VMI without a VM is its phase, also while it is paused. */
export function statusOf(row: VmRow): string {
  if (row.status === 'Running' && row.vmi?.paused) return 'Paused';
  return row.status === '' ? 'Pending' : row.status;
}

export function toneOf(row: VmRow): Tone {
  const status = statusOf(row);
  return tones[status] ?? (/^err|fail|backoff|unschedulable/i.test(status) ? 'bad' : 'busy');
}

export function isLive({ vmi }: VmRow): boolean {
  return vmi !== undefined && vmi.phase !== 'Succeeded' && vmi.phase !== 'Failed';
}

/** Its launcher and QEMU are there: console, screen, pause. */
export function hasGuest({ vmi }: VmRow): boolean {
  return vmi?.phase === 'Running';
}

/** False is trouble. What is False in the ordinary course of things is not in here. */
const wanted = ['Ready', 'Synchronized', 'Provisioning', 'PodScheduled', 'AccessCredentialsSynchronized'];
/** True is worth knowing. */
const notable = [
  'Failure',
  'EvictionRequired',
  'MigrationRequired',
  'RestartRequired',
  'UnsupportedAgent',
  'ManualRecoveryRequired',
];

export interface Note {
  readonly title: string;
  readonly text: string;
}

/** The conditions that are not fine, in words; most telling first. */
export function notesOf(row: VmRow): readonly Note[] {
  const isUp = isLive(row);
  return (
    row.conditions
      .filter(({ type, status }) => (status === 'True' ? notable : wanted).includes(type))
      // That a stopped VM is not ready is no news, nor that a paused one is not.
      .filter(({ type }) => type !== 'Ready' || (isUp && !row.vmi?.paused))
      .map(({ type, status, reason, message }) => ({
        title: status === 'True' ? spaced(type) : `not ${spaced(type)}`,
        // Its message says what was changed, and not what it means.
        text:
          type === 'RestartRequired' && message
            ? `restart required: ${message}`
            : message || (reason ? spaced(reason) : ''),
      }))
      .sort((one, other) => rank(one) - rank(other))
  );
}

function rank({ title, text }: Note): number {
  return (title === 'not ready' ? 2 : 0) + (text === '' ? 1 : 0);
}

/** A message says more than the name of its condition. */
export function noteText({ title, text }: Note): string {
  return capitalised(text || title);
}

const ownerKinds: Readonly<Record<string, string>> = {
  VirtualMachinePool: 'pool',
  VirtualMachineInstanceReplicaSet: 'replica set',
};

/** "pool farm"; empty: nobody made it but a person. */
export function ownerText({ owner }: VmRow): string {
  return owner === undefined ? '' : `${ownerKinds[owner.kind] ?? owner.kind} ${owner.name}`;
}

/** What is to be known before it is taken away. */
function replacement(row: VmRow): string {
  return row.owner === undefined ? '' : ` The ${ownerText(row)} makes another one in its place.`;
}

/** What can be done with it now. */
export function offersOf(row: VmRow, rights: Rights, nodes: readonly NodeRow[] = []): readonly ActionOffer[] {
  if (rights.isLookOnly) return [];
  return [...powerOffers(row, rights), ...guestOffers(row, nodes), ...objectOffers(row, rights)];
}

function powerOffers(row: VmRow, { canStart }: Rights): readonly ActionOffer[] {
  const { name, runStrategy } = row;
  if (!canStart) return [];
  if (!isLive(row)) return runStrategy === undefined ? [] : [{ action: 'start', label: 'Start' }];
  const stop = stopOffer(row);
  if (runStrategy === undefined || ['Halted', 'Once'].includes(runStrategy)) return [stop];
  const question = `Restart ${name}? Its operating system is asked to shut down, and another instance starts, with what was changed.`;
  return [stop, { action: 'restart', label: 'Restart', question }];
}

function guestOffers(row: VmRow, nodes: readonly NodeRow[]): readonly ActionOffer[] {
  const { name, vmi } = row;
  if (!hasGuest(row)) return [];
  return [
    ...moveOffers(row, nodes),
    vmi?.paused ? { action: 'unpause', label: 'Unpause' } : { action: 'pause', label: 'Pause' },
    {
      action: 'softreboot',
      label: 'Reboot',
      question: `Reboot ${name}? Its operating system is asked to restart.`,
    },
    {
      action: 'reset',
      label: 'Reset',
      question: `Reset ${name}? It restarts at once, as if its reset button were pressed: what is not on disk is lost.`,
      isHarsh: true,
    },
  ];
}

/** An instance alone that runs is deleted by its stop. */
function objectOffers(row: VmRow, { canWrite }: Rights): readonly ActionOffer[] {
  const isAlone = row.runStrategy === undefined;
  if (!canWrite || (isAlone && isLive(row))) return [];
  const question = `Delete ${row.name}?${replacement(row)}`;
  const deletion = { action: 'delete', label: 'Delete…', yes: 'Delete', question, isHarsh: true } as const;
  return isAlone ? [deletion] : [{ action: 'clone', label: 'Clone…' }, deletion];
}

/** Nothing where there is one node, or the VM cannot move: its overview says why. */
function moveOffers(row: VmRow, nodes: readonly NodeRow[]): readonly ActionOffer[] {
  const { name } = row;
  if (nodes.length < 2) return [];
  const move = moveUnderWay(row);
  if (move) return move.isCancelled ? [] : [{ action: 'cancel-move', label: 'Cancel move' }];
  const targets = targetsOf(row, nodes);
  const [only, ...others] = targets;
  if (only === undefined || moveObstacle(row) !== undefined) return [];
  const where = others.length > 0 ? 'another node' : only;
  const question = `Move ${name} to ${where}? It runs on meanwhile.`;
  return [{ action: 'move', label: 'Move…', yes: 'Move', question, targets }];
}

function stopOffer(row: VmRow): ActionOffer {
  const { name, runStrategy, owner } = row;
  if (runStrategy !== undefined) {
    return { action: 'stop', label: 'Stop', question: `Stop ${name}? Its operating system is asked to shut down.` };
  }
  const fate = owner ? `it is deleted.${replacement(row)}` : 'it is deleted and cannot be started again.';
  const question = `Stop ${name}? It is an instance without a VirtualMachine: ${fate}`;
  return { action: 'stop', label: 'Stop', question, isHarsh: true };
}

/** All words are somewhere in what the row shows. */
export function matches(row: VmRow, wantedText: string): boolean {
  const shown = [row.namespace, row.name, ownerText(row), statusOf(row), row.vmi?.ip, row.vmi?.guestOs, row.vmi?.node]
    .join(' ')
    .toLowerCase();
  return wantedText
    .toLowerCase()
    .split(/\s+/)
    .every((word) => shown.includes(word));
}

/** "3 Running, 1 Stopped": most frequent first. */
export function summary(rows: readonly VmRow[]): string {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(statusOf(row), (counts.get(statusOf(row)) ?? 0) + 1);
  return [...counts]
    .sort(([, one], [, other]) => other - one)
    .map(([status, many]) => `${many} ${status}`)
    .join(', ');
}

/** Why there is no console and no screen; undefined: there is a guest. */
export function absenceOf(row: VmRow): string | undefined {
  if (hasGuest(row)) return undefined;
  const [note] = notesOf(row).map(noteText);
  const why = note === undefined ? '' : ` ${note.replace(/\.?$/, '.')}`;
  // Why it failed stands above all its sides.
  if (toneOf(row) === 'bad') return `${row.name} does not run: ${statusOf(row)}. It is shown here as soon as it does.`;
  if (isLive(row)) return `${row.name} does not run yet: ${statusOf(row)}. It is shown here as soon as it does.${why}`;
  return `${row.name} does not run.${why}`;
}

/** "2 CPUs, 4 GiB"; before the first start only its instance type is known. */
export function sizeText({ cpus, memoryBytes, instancetype }: VmRow): string {
  const parts = [cpus !== undefined && count(cpus, 'CPU'), memoryBytes !== undefined && fileSize(memoryBytes)];
  return parts.filter(Boolean).join(', ') || (instancetype?.name ?? '');
}
