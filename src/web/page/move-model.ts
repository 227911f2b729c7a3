import { durationText } from '../duration.ts';
import { amountText } from '../migration-text.ts';
import type { MoveRow, NodeRow, VmRow } from '../rows.ts';
import { count } from './words.ts';

/** Phases of a migration, in words; those that are not here are shown as they are. */
const phases: Readonly<Record<string, string>> = {
  Pending: 'waits for its turn',
  Scheduling: 'looks for a place',
  Scheduled: 'has a place',
  PreparingTarget: 'its new place is prepared',
  TargetReady: 'its new place is ready',
  Running: 'is copied while it runs',
};

const modes: Readonly<Record<string, string>> = {
  Paused: 'stands still for the switch',
  PostCopy: 'runs there already, the rest is fetched',
};

type UnderWay = Extract<MoveRow, { kind: 'under-way' }>;

export function moveUnderWay({ move }: VmRow): UnderWay | undefined {
  return move?.kind === 'under-way' ? move : undefined;
}

/** What is going on, without figures. */
export function moveText({ phase, to, isCancelled, waitsFor, progress }: UnderWay): string {
  if (isCancelled) return 'The move is cancelled';
  const way = to === undefined ? 'To another node' : `To ${to}`;
  const state = modes[progress?.mode ?? ''] ?? phases[phase] ?? phase;
  return `${way}: ${waitsFor ?? state}`;
}

/** Empty: nothing has moved yet. */
export function moveAmount({ progress }: UnderWay): string {
  return progress ? amountText(progress) : '';
}

/** From 0 to 1; undefined: nobody knows. Memory that changes is sent again, so it may go back. */
export function movedPart({ progress }: UnderWay): number | undefined {
  const { processedBytes = 0, remainingBytes = 0 } = progress ?? {};
  const all = processedBytes + remainingBytes;
  return all > 0 ? processedBytes / all : undefined;
}

/** The last move, when none is under way. */
export function endedMoveText(move: MoveRow | undefined): string {
  if (move?.kind === 'arrived') {
    const took = move.tookMs === undefined ? '' : ` in ${durationText(move.tookMs)}`;
    return `${move.from ? `from ${move.from} ` : ''}to ${move.to ?? 'this node'}${took}`;
  }
  return move?.kind === 'failed' ? `failed: ${move.reason}` : '';
}

/** What a person who waits for the end of a move is told, once. */
export function moveEnd(
  before: VmRow | undefined,
  { name, move }: VmRow,
): { readonly kind: 'arrived' | 'failed'; readonly text: string } | undefined {
  const was = before && moveUnderWay(before);
  if (!was) return undefined;
  if (move?.kind === 'arrived') return { kind: 'arrived', text: `${name} runs on ${move.to ?? 'its new node'} now.` };
  if (move?.kind === 'failed') {
    const text = was.isCancelled ? `${name} stays where it is.` : `${name} stays where it is: ${move.reason}`;
    return { kind: was.isCancelled ? 'arrived' : 'failed', text };
  }
  // Deleted, which is how it is cancelled before it begins.
  return move === undefined && was.isCancelled ? { kind: 'arrived', text: `${name} stays where it is.` } : undefined;
}

/** Why it cannot move; undefined: nothing says so. */
export function moveObstacle({ conditions }: VmRow): string | undefined {
  const found = conditions.find(({ type }) => type === 'LiveMigratable');
  return found?.status === 'False' ? found.message || found.reason || 'nobody says why' : undefined;
}

/** Where it can go: ready ones that take VMs, but for its own. */
export function targetsOf({ vmi }: VmRow, nodes: readonly NodeRow[]): readonly string[] {
  return nodes
    .filter(({ name, isCordoned, agent }) => name !== vmi?.node && !isCordoned && agent === 'ready')
    .map(({ name }) => name);
}

export function nodeStatus({ isCordoned, agent }: NodeRow): {
  readonly text: string;
  readonly tone: 'good' | 'paused' | 'bad';
} {
  if (agent === 'away') return { text: 'Agent away', tone: 'bad' };
  if (agent === 'not-ready') return { text: 'Not ready', tone: 'bad' };
  return isCordoned ? { text: 'Cordoned', tone: 'paused' } : { text: 'Ready', tone: 'good' };
}

/** "2 machines, 1 is leaving, 1 is coming" */
export function nodeLoad(name: string, rows: readonly VmRow[]): string {
  const here = rows.filter(({ vmi }) => vmi?.node === name).length;
  const moves = rows.flatMap((row) => moveUnderWay(row) ?? []);
  const leaving = moves.filter(({ from }) => from === name).length;
  const coming = moves.filter(({ to }) => to === name).length;
  const parts = [
    here === 0 ? 'no machines' : count(here, 'machine'),
    ...(leaving > 0 ? [`${leaving} leaving`] : []),
    ...(coming > 0 ? [`${coming} coming`] : []),
  ];
  return parts.join(', ');
}
