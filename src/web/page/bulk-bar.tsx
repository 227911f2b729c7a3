import type { VmRow } from '../rows.ts';
import { bulkActions, bulkLabel, bulkTargets, runBulk } from './bulk.ts';
import { icon } from './elements.tsx';
import { keyOfRow, type PageState } from './page-state.ts';
import { nextOrder, type OrderKey, orderKeys, orderLabels } from './row-order.ts';

interface ListProps {
  readonly state: PageState;
  readonly shown: readonly VmRow[];
}

/** Columns to sort by; on a narrow screen one list of them. */
export function ListHead({ state, shown }: ListProps) {
  const { by, isReversed } = state.order.value;
  return (
    <div class="list-head">
      <SelectAll state={state} shown={shown} />
      <span class="head-shot" />
      {(['name', 'status', 'guest', 'size', 'age'] as const).map((key) => (
        <Column key={key} state={state} by={key} />
      ))}
      <div class="order">
        <span aria-hidden="true">Sort</span>
        <select
          aria-label="Sort"
          value={by}
          onChange={({ currentTarget }) => {
            const wanted = orderKeys.find((known) => known === currentTarget.value) ?? 'trouble';
            state.order.value = { by: wanted, isReversed: false };
          }}>
          {orderKeys.map((key) => (
            <option key={key} value={key}>
              {orderLabels[key]}
            </option>
          ))}
        </select>
        <button
          type="button"
          aria-label={isReversed ? 'Sorted backwards: turn round' : 'Sorted forwards: turn round'}
          onClick={() => {
            state.order.value = { by, isReversed: !isReversed };
          }}>
          {isReversed ? '↑' : '↓'}
        </button>
      </div>
    </div>
  );
}

function Column({ state, by }: { readonly state: PageState; readonly by: OrderKey }) {
  const { by: current, isReversed } = state.order.value;
  const isOn = current === by;
  const direction = isReversed ? 'descending' : 'ascending';
  return (
    <button
      type="button"
      class={`column head-${by}`}
      aria-pressed={isOn}
      aria-label={isOn ? `Sorted by ${by}, ${direction}` : `Sort by ${by}`}
      onClick={() => {
        state.order.value = nextOrder(state.order.value, by);
      }}>
      {orderLabels[by]}
      <span aria-hidden="true">{isOn ? (isReversed ? ' ↑' : ' ↓') : ''}</span>
    </button>
  );
}

/** Of those that are shown. */
function SelectAll({ state, shown }: ListProps) {
  if (state.rights.value.isLookOnly) return <span class="vm-select" />;
  const keys = shown.map(keyOfRow);
  const selected = state.selected.value;
  const many = keys.filter((key) => selected.has(key)).length;
  return (
    <input
      type="checkbox"
      class="vm-select"
      aria-label="Select all that are shown"
      checked={many > 0 && many === keys.length}
      indeterminate={many > 0 && many < keys.length}
      onChange={({ currentTarget }) => state.select(keys, currentTarget.checked)}
    />
  );
}

/** What can be done with those that were chosen, and how far it is. */
export function BulkBar({ state }: { readonly state: PageState }) {
  const many = state.selected.value.size;
  const run = state.bulk.value;
  if (many === 0 && !run) return null;
  return (
    <section class="bulk card" aria-label="Selected machines">
      {many > 0 && (
        <div class="bulk-actions">
          <span class="bulk-count">{many} selected</span>
          {bulkActions.map((action) => (
            <BulkButton key={action} state={state} action={action} />
          ))}
          <button type="button" class="plain" onClick={() => state.select([...state.selected.value], false)}>
            Clear
          </button>
        </div>
      )}
      {run && (
        <div class="bulk-run" role="status">
          <p>
            {run.title}: {run.done} of {run.total}
            {run.failures.length > 0 && `, ${run.failures.length} failed`}
          </p>
          <progress aria-label={run.title} max={run.total} value={run.done} />
          <BulkFailures state={state} />
        </div>
      )}
    </section>
  );
}

function BulkButton({ state, action }: { readonly state: PageState; readonly action: (typeof bulkActions)[number] }) {
  const many = bulkTargets(state, action).length;
  const isBlocked = many === 0 || !state.isCurrent.value || state.bulk.value?.isOver === false;
  return (
    <button
      type="button"
      aria-disabled={isBlocked}
      onClick={() => {
        if (!isBlocked) void runBulk(state, action);
      }}>
      {icon(action)}
      {bulkLabel(action)}
      {many > 0 && ` (${many})`}
    </button>
  );
}

function BulkFailures({ state }: { readonly state: PageState }) {
  const run = state.bulk.value;
  if (!run || run.failures.length === 0) return null;
  return (
    <>
      <ul class="notes is-bad">
        {run.failures.map(({ key, text }) => (
          <li key={key}>
            {key}: {text}
          </li>
        ))}
      </ul>
      {run.isOver && (
        <button
          type="button"
          onClick={() => {
            state.bulk.value = undefined;
          }}>
          Close
        </button>
      )}
    </>
  );
}
