import { Component } from 'preact';
import type { VmRow } from '../rows.ts';
import { whatGoes } from './delete-model.ts';
import { icon } from './elements.tsx';
import { deleteVm, getVm } from './kube-calls.ts';
import { type Answer, keyOfRow, type PageState } from './page-state.ts';
import { cloneHref } from './route.ts';
import { type ActionOffer, offersOf, type VmAction } from './row-model.ts';
import { act } from './server-calls.ts';
import { messageOf } from './words.ts';

const doing: Readonly<Record<VmAction, string>> = {
  start: 'is being started',
  stop: 'is asked to shut down',
  restart: 'is asked to shut down, and starts again',
  pause: 'is paused',
  unpause: 'runs on',
  softreboot: 'is asked to restart',
  reset: 'was reset',
  move: 'is on its way',
  'cancel-move': 'stays where it is, as soon as the move has ended',
  clone: 'is copied',
  delete: 'is being deleted',
};

interface ActionButtonsProps {
  readonly state: PageState;
  readonly row: VmRow;
  readonly only?: (offer: ActionOffer) => boolean;
  readonly class: string;
}

/** What can be done with a VM. The focus stays: what was pressed has most often become its opposite. */
export class ActionButtons extends Component<ActionButtonsProps> {
  #group: HTMLElement | null = null;

  override getSnapshotBeforeUpdate(): number {
    return this.#buttons().findIndex((button) => button.matches(':focus'));
  }

  override componentDidUpdate(_props: ActionButtonsProps, _state: object, focused: number): void {
    const buttons = this.#buttons();
    if (focused < 0 || buttons.some((button) => button.matches(':focus'))) return;
    buttons[Math.min(focused, buttons.length - 1)]?.focus();
  }

  render({ state, row, only = () => true, class: name }: ActionButtonsProps) {
    const isBlocked = state.busy.value.has(keyOfRow(row)) || !state.isCurrent.value;
    const offers = offersOf(row, state.rights.value, state.nodes.value).filter(only);
    return (
      <div
        class={name}
        ref={(element) => {
          this.#group = element;
        }}>
        {offers.map((offer) => (
          <button
            key={offer.action}
            type="button"
            data-action={offer.action}
            aria-label={`${offer.label} ${row.name}`}
            // Not `disabled`, which would lose the focus.
            aria-disabled={isBlocked}
            onClick={() => {
              if (!isBlocked) void run(state, row, offer);
            }}>
            {icon(offer.action)}
            <span>{offer.label}</span>
          </button>
        ))}
      </div>
    );
  }

  #buttons(): HTMLButtonElement[] {
    return [...(this.#group?.querySelectorAll('button') ?? [])];
  }
}

/** Does what a button says; one action per VM at a time. */
export async function run(state: PageState, row: VmRow, offer: ActionOffer): Promise<void> {
  const key = keyOfRow(row);
  const { action, label, yes = label } = offer;
  if (action === 'clone') {
    location.hash = cloneHref(row);
    return;
  }
  if (state.busy.value.has(key)) return;
  const answer = await agreed(state, row, offer);
  if (!answer.isYes) return;
  state.setBusy(key, true);
  try {
    await perform(row, action, answer.choice);
    state.say(`${row.name} ${doing[action]}.`);
    if (action === 'delete' && isShown(state, key)) location.hash = '#/';
  } catch (error) {
    state.fail(`${yes} ${row.name}: ${messageOf(error)}`);
  } finally {
    state.setBusy(key, false);
  }
}

function isShown({ route }: PageState, key: string): boolean {
  return route.value?.view === 'vm' && keyOfRow(route.value) === key;
}

/** Rejects with CallError. */
export async function perform(row: VmRow, action: VmAction, node = ''): Promise<void> {
  if (action === 'delete') await deleteVm(row, row.runStrategy === undefined ? 'virtualmachineinstances' : undefined);
  else await act(row, action, node);
}

async function agreed(state: PageState, row: VmRow, offer: ActionOffer): Promise<Answer> {
  const { action, label, yes = label, question, isHarsh, targets = [] } = offer;
  if (question === undefined) return { isYes: true, choice: '' };
  const details = action === 'delete' ? await detailsOfDelete(row) : [];
  const asked = { text: question, yes, isHarsh: isHarsh === true, details };
  if (targets.length === 0) return state.ask(asked);
  const names = targets.map((value) => ({ value, text: value }));
  const options = targets.length === 1 ? names : [{ value: '', text: 'whichever has room' }, ...names];
  return state.ask({ ...asked, choices: { label: 'Node', options } });
}

/** The question is asked, too, when it cannot be known now. */
async function detailsOfDelete(row: VmRow): Promise<readonly string[]> {
  const vm = await getVm(row).catch(() => undefined);
  return whatGoes(row, vm);
}
