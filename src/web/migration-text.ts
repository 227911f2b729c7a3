import type { ExplainMigration, ExplainMoved } from '../api/index.ts';
import { durationText } from './duration.ts';
import { fileSize } from './file-size.ts';

/** What is known of a guest on its way, of whatever source. */
export type MigrationFigures = Pick<
  ExplainMigration,
  'mode' | 'processedBytes' | 'remainingBytes' | 'bytesPerSecond' | 'leftSeconds'
>;

const modes: Readonly<Record<string, string>> = {
  PreCopy: 'its memory is copied while it runs',
  Paused: 'it stands still for the switch',
  PostCopy: 'it runs at the target already and fetches what is missing',
};

/** "its memory is copied while it runs; 120 MiB sent, 30 MiB to go, 60 MiB/s, about 1 s left" */
export function progressText({ mode, ...figures }: MigrationFigures): string {
  return [modes[mode] ?? mode, amountText(figures)].filter(Boolean).join('; ');
}

/** Empty: nothing has moved yet. */
export function amountText(figures: Omit<MigrationFigures, 'mode'>): string {
  const { processedBytes = 0, remainingBytes = 0, bytesPerSecond, leftSeconds } = figures;
  if (processedBytes === 0) return bytesPerSecond > 0 ? `${fileSize(bytesPerSecond)}/s` : '';
  const left = leftSeconds === undefined ? [] : [`about ${durationText(leftSeconds * 1000)} left`];
  const amounts = [`${fileSize(processedBytes)} sent`, `${fileSize(remainingBytes)} to go`];
  return [...amounts, `${fileSize(bytesPerSecond)}/s`, ...left].join(', ');
}

/** Of one node's agent: which way, and what its streams carry. */
export function migrationText(migration: ExplainMigration): string {
  const { direction, peer, ports, streams, bytes } = migration;
  const way = `${direction === 'out' ? 'to' : 'from'} ${peer || 'a node that is not named'}`;
  const open = `${streams} ${streams === 1 ? 'stream' : 'streams'} on port ${Object.keys(ports).join(', ')}`;
  return `${way}: ${progressText(migration)}; ${open}, ${fileSize(bytes)} carried`;
}

/** "moved to node b at 2026-01-02T03:04:05Z by migration UID" */
export function movedText({ node, at, migration }: ExplainMoved): string {
  return `moved to node ${node} at ${at}${migration === undefined ? '' : ` by migration ${migration}`}`;
}
