import type { VmRow } from '../rows.ts';
import { Card, type Fact, Facts, Nothing, Row, Table } from './elements.tsx';
import { FiguresCard } from './figures-card.tsx';
import { GuestDetails } from './guest-details.tsx';
import { endedMoveText, moveObstacle } from './move-model.ts';
import { MoveProgress } from './move-progress.tsx';
import { useOwned } from './owned.ts';
import { keyOfRow, type PageState } from './page-state.ts';
import { hasGuest, ownerText, sizeText } from './row-model.ts';
import type { Vm } from './server-calls.ts';
import { Thumbnail, Thumbnails } from './thumbnails.tsx';
import { ago } from './words.ts';

interface OverviewPanelProps {
  readonly state: PageState;
  readonly vm: Vm;
  readonly row: VmRow | undefined;
}

/** Facts of a VM, its conditions, its screen in small. */
export function OverviewPanel({ state, vm, row }: OverviewPanelProps) {
  const thumbnails = useOwned(() => new Thumbnails());
  // Read, so that times are written anew as time goes by.
  void state.nowMs.value;
  return (
    <div class="overview">
      {!row && state.isLoaded.value && <Nothing>There is no virtual machine {keyOfRow(vm)} on this node.</Nothing>}
      {row && (
        <>
          <Card title="Facts" class={hasGuest(row) ? '' : 'is-wide'}>
            <Facts facts={factsOf(row, state)} />
            <MoveProgress row={row} />
          </Card>
          {hasGuest(row) && (
            <Card title="Screen" class="shot-card">
              <Thumbnail of={row} thumbnails={thumbnails} width={640} height={400} label="Picture of the screen" />
              <p class="hint">There is no picture of it now.</p>
            </Card>
          )}
          {state.hasFigures.value && hasGuest(row) && <FiguresCard key={row.vmi?.uid} row={row} />}
          <GuestDetails row={row} />
          <Conditions row={row} />
        </>
      )}
    </div>
  );
}

function factsOf(row: VmRow, state: PageState): readonly Fact[] {
  const { namespace, vmi, runStrategy, createdAt } = row;
  return [
    { term: 'Namespace', text: namespace },
    ...(state.hasNodes.value ? nodeFacts(row) : [{ term: 'Node', text: state.node.value }]),
    { term: 'Address', text: vmi?.ip ?? '–' },
    { term: 'System', text: vmi?.guestOs ?? '–' },
    { term: 'Size', text: sizeText(row) || '–' },
    ...(row.instancetype === undefined ? [] : [{ term: 'Instance type', text: row.instancetype.name }]),
    ...(row.preference === undefined ? [] : [{ term: 'Preference', text: row.preference.name }]),
    ...(row.owner === undefined ? [] : [{ term: 'Made by', text: ownerText(row) }]),
    { term: 'Run strategy', text: runStrategy ?? 'none: an instance without a VirtualMachine' },
    { term: 'Created', text: new Date(createdAt).toLocaleString() },
    { term: 'Instance', text: vmi?.uid ?? 'none: it does not run' },
  ];
}

/** Where there are several. */
function nodeFacts(row: VmRow): readonly Fact[] {
  const obstacle = moveObstacle(row);
  const last = endedMoveText(row.move);
  return [
    { term: 'Node', text: row.vmi?.node ?? '–' },
    ...(obstacle === undefined ? [] : [{ term: 'Moves', text: `not: ${obstacle}`, isBad: true }]),
    ...(last === '' ? [] : [{ term: 'Last move', text: last, isBad: row.move?.kind === 'failed' }]),
  ];
}

const conditionHead = ['Condition', 'Status', 'Why', 'Since'];

function Conditions({ row: { conditions } }: { readonly row: VmRow }) {
  if (conditions.length === 0) return null;
  return (
    <Card title="Conditions" class="is-wide">
      <Table head={conditionHead} stacks>
        {conditions.map(({ type, status, reason, message, lastTransitionTime }) => {
          const why = [reason, message].filter(Boolean).join(': ');
          const since = lastTransitionTime && <span class="when">{ago(lastTransitionTime, Date.now())}</span>;
          return <Row key={type} head={conditionHead} cells={[type, status, why, since]} />;
        })}
      </Table>
    </Card>
  );
}
