import { BulkBar, ListHead } from './bulk-bar.tsx';
import { icon, Nothing } from './elements.tsx';
import { NodeStrip } from './node-strip.tsx';
import { useOwned } from './owned.ts';
import { keyOfRow, type PageState } from './page-state.ts';
import { matches, summary } from './row-model.ts';
import { SetsStrip } from './sets-strip.tsx';
import { Thumbnails } from './thumbnails.tsx';
import { VmListItem } from './vm-list-item.tsx';
import { count } from './words.ts';

/** All VMs, and the nodes where there are several. */
export function ListView({ state }: { readonly state: PageState }) {
  const thumbnails = useOwned(() => new Thumbnails());
  const all = state.sortedRows.value;
  const shown = all.filter((row) => matches(row, state.filter.value.trim()));
  return (
    <section class="list-view">
      <div class="view-head">
        <h1 tabindex={-1}>Virtual machines</h1>
        <p class="summary">{all.length > 0 && `${count(all.length, 'machine')}: ${summary(all)}`}</p>
        <Filter state={state} hidden={all.length < 2} />
        {state.rights.value.canWrite && (
          <a class="button primary" href="#/new">
            {icon('add')}
            New machine
          </a>
        )}
      </div>
      <NodeStrip state={state} />
      <SetsStrip state={state} />
      <BulkBar state={state} />
      {shown.length === 0 && <NothingToList state={state} />}
      <div class="vm-table" hidden={shown.length === 0}>
        <ListHead state={state} shown={shown} />
        <ul class="vms" aria-label="Virtual machines" data-old={state.isCurrent.value ? undefined : ''}>
          {shown.map((row) => (
            <VmListItem key={keyOfRow(row)} state={state} row={row} thumbnails={thumbnails} />
          ))}
        </ul>
      </div>
    </section>
  );
}

function Filter({ state, hidden }: { readonly state: PageState; readonly hidden: boolean }) {
  return (
    <input
      type="search"
      id="filter"
      placeholder="Find"
      aria-label="Find virtual machines by name, namespace, status, address or system"
      autocomplete="off"
      spellcheck={false}
      hidden={hidden}
      value={state.filter.value}
      onInput={({ currentTarget }) => {
        state.filter.value = currentTarget.value;
      }}
    />
  );
}

/** Why the list is empty; the banner says it when the server refuses the page. */
function NothingToList({ state }: { readonly state: PageState }) {
  if (!state.isLoaded.value) return <Nothing>{state.link.value.kind !== 'denied' && 'Asking for the list…'}</Nothing>;
  if (state.rows.value.size > 0) return <Nothing>No virtual machine matches.</Nothing>;
  return (
    <div class="nothing">
      <h2>No virtual machines yet</h2>
      {state.rights.value.canWrite && (
        <a class="button primary" href="#/new">
          {icon('add')}
          New machine
        </a>
      )}
      <p>One that is made in a terminal appears here, too:</p>
      <pre>
        <code>kubectl apply -f examples/vm.yaml</code>
      </pre>
    </div>
  );
}
