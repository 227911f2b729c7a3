import type { NodeRow } from '../rows.ts';
import { Badge } from './elements.tsx';
import { nodeLoad, nodeStatus } from './move-model.ts';
import type { PageState } from './page-state.ts';
import { actOnNode, type NodeAction } from './server-calls.ts';
import { count, messageOf } from './words.ts';

interface NodeProps {
  readonly state: PageState;
  readonly node: NodeRow;
}

/** The nodes, where there are several. */
export function NodeStrip({ state }: { readonly state: PageState }) {
  if (!state.hasNodes.value) return null;
  return (
    <ul class="nodes" aria-label="Nodes">
      {state.nodes.value.map((node) => (
        <Node key={node.name} state={state} node={node} />
      ))}
    </ul>
  );
}

function Node({ state, node }: NodeProps) {
  const { name, reason } = node;
  return (
    <li class="card node-card" data-node={name}>
      <div class="node-head">
        <h2>{name}</h2>
        <Badge {...nodeStatus(node)} />
      </div>
      <p class="node-load">{nodeLoad(name, state.sortedRows.value)}</p>
      {reason !== undefined && <p class="note">{reason}</p>}
      {!state.isLookOnly.value && (
        <div class="node-buttons">
          <NodeButtons state={state} node={node} />
        </div>
      )}
    </li>
  );
}

function NodeButtons({ state, node: { name, isCordoned } }: NodeProps) {
  const isBlocked = state.busy.value.has(busyKey(name)) || !state.isCurrent.value;
  const isUsed = state.sortedRows.value.some(({ vmi }) => vmi?.node === name);
  const button = (action: NodeAction, label: string) => (
    <button
      key={action === 'empty' ? 'empty' : 'cordon'}
      type="button"
      aria-label={`${label.replace('…', '')} ${name}`}
      // Not `disabled`, which would lose the focus.
      aria-disabled={isBlocked}
      onClick={() => {
        if (!isBlocked) void run(state, name, action);
      }}>
      {label}
    </button>
  );
  return (
    <>
      {isCordoned ? button('uncordon', 'Uncordon') : button('cordon', 'Cordon')}
      {isUsed && button('empty', 'Empty…')}
    </>
  );
}

/** No key of a VM has a space. */
const busyKey = (name: string) => `node ${name}`;

async function run(state: PageState, name: string, action: NodeAction): Promise<void> {
  if (action === 'empty') {
    const text = `Empty ${name}? It takes no new machines, and those on it move to other nodes while they run on.`;
    if (!(await state.ask({ text, yes: 'Empty', isHarsh: false })).isYes) return;
  }
  state.setBusy(busyKey(name), true);
  try {
    const moves = await actOnNode(name, action);
    state.say(doneText(name, action, moves));
  } catch (error) {
    state.fail(`${name}: ${messageOf(error)}`);
  } finally {
    state.setBusy(busyKey(name), false);
  }
}

function doneText(name: string, action: NodeAction, moves: number): string {
  if (action === 'uncordon') return `${name} takes machines again.`;
  if (action === 'cordon') return `${name} takes no new machines; those on it stay.`;
  return moves === 0
    ? `${name} has nothing to move.`
    : `${count(moves, 'machine')} of ${name} on the way to other nodes.`;
}
