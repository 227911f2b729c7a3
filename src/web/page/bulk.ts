import type { VmRow } from '../rows.ts';
import { perform } from './action-buttons.tsx';
import { keyOfRow, type PageState } from './page-state.ts';
import { offersOf, type VmAction } from './row-model.ts';
import { count, messageOf } from './words.ts';

export type BulkAction = Extract<VmAction, 'start' | 'stop' | 'restart' | 'delete'>;
export const bulkActions: readonly BulkAction[] = ['start', 'stop', 'restart', 'delete'];

const atOnce = 4;

const words: Readonly<Record<BulkAction, { readonly label: string; readonly doing: string }>> = {
  start: { label: 'Start', doing: 'Starting' },
  stop: { label: 'Stop', doing: 'Stopping' },
  restart: { label: 'Restart', doing: 'Restarting' },
  delete: { label: 'Delete', doing: 'Deleting' },
};

export function bulkLabel(action: BulkAction): string {
  return words[action].label;
}

/** Those of the chosen for which it is possible now. */
export function bulkTargets(state: PageState, action: BulkAction): readonly VmRow[] {
  const { selected, rows, rights, nodes } = state;
  return [...selected.value].flatMap((key) => {
    const row = rows.value.get(key);
    const isOffered = row && offersOf(row, rights.value, nodes.value).some((offer) => offer.action === action);
    return isOffered ? [row] : [];
  });
}

/** Asks once, does it with a few at a time, and says of each that failed why. */
export async function runBulk(state: PageState, action: BulkAction): Promise<void> {
  const targets = bulkTargets(state, action);
  if (targets.length === 0 || (state.bulk.value && !state.bulk.value.isOver)) return;
  const { label, doing } = words[action];
  if (action !== 'start' && !(await isAgreed(state, action, targets))) return;
  const title = `${doing} ${count(targets.length, 'machine')}`;
  state.bulk.value = { title, total: targets.length, done: 0, isOver: false, failures: [] };
  const waiting = targets.values();
  const work = async () => {
    for (const row of waiting) await one(state, row, action);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  const over = state.bulk.value;
  const hasFailed = over.failures.length > 0;
  state.bulk.value = hasFailed ? { ...over, isOver: true } : undefined;
  // What failed stays chosen: it can be tried again.
  const failed = new Set(over.failures.map(({ key }) => key));
  const done = targets.map(keyOfRow).filter((key) => !failed.has(key));
  state.select(done, false);
  if (!hasFailed) state.say(`${label}: done for ${count(targets.length, 'machine')}.`);
}

async function one(state: PageState, row: VmRow, action: BulkAction): Promise<void> {
  const key = keyOfRow(row);
  state.setBusy(key, true);
  const failure = await perform(row, action).then(
    () => undefined,
    (error: unknown) => ({ key, text: messageOf(error) }),
  );
  state.setBusy(key, false);
  const run = state.bulk.value;
  if (run)
    state.bulk.value = { ...run, done: run.done + 1, failures: failure ? [...run.failures, failure] : run.failures };
}

async function isAgreed(state: PageState, action: BulkAction, targets: readonly VmRow[]): Promise<boolean> {
  const isDelete = action === 'delete';
  const { label } = words[action];
  const names = targets.map(keyOfRow);
  const fates: readonly string[] = isDelete
    ? [
        'Guests that run are asked to shut down. Scratch disks, changes to images and DataVolumes of a machine’s own templates go, with their data; claims and files of the node stay.',
      ]
    : [];
  const answer = await state.ask({
    text: `${label} ${count(targets.length, 'machine')}?`,
    details: [...names.slice(0, 12), ...(names.length > 12 ? [`and ${names.length - 12} more`] : []), ...fates],
    yes: label,
    isHarsh: isDelete,
  });
  return answer.isYes;
}
