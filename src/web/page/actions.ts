import type { VmRow } from '../rows.ts';
import type { Announcer } from './announce.ts';
import { confirmed } from './confirm.ts';
import { el, icon } from './dom.ts';
import { type ActionOffer, offersOf, type VmAction } from './row-model.ts';
import { act } from './server-calls.ts';
import { keyOfRow, type Store } from './store.ts';

const doing: Readonly<Record<VmAction, string>> = {
  start: 'is being started',
  stop: 'is asked to shut down',
  pause: 'is paused',
  unpause: 'runs on',
  softreboot: 'is asked to restart',
  reset: 'was reset',
};

/** Does what buttons say; one action per VM at a time. */
export class Actions {
  readonly #store: Store;
  readonly #announcer: Announcer;
  readonly #busy = new Set<string>();
  readonly #listeners = new Set<() => void>();

  constructor(store: Store, announcer: Announcer) {
    this.#store = store;
    this.#announcer = announcer;
  }

  offers(row: VmRow): readonly ActionOffer[] {
    return offersOf(row, this.#store.actions);
  }

  isBusy(key: string): boolean {
    return this.#busy.has(key);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async run(row: VmRow, { action, label, question, isHarsh }: ActionOffer): Promise<void> {
    const key = keyOfRow(row);
    if (this.#busy.has(key)) return;
    if (question !== undefined && !(await confirmed(question, label, isHarsh === true))) return;
    this.#setBusy(key, true);
    try {
      await act(row, action);
      this.#announcer.say(`${row.name} ${doing[action]}.`);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#announcer.fail(`${label} ${row.name}: ${reason}`);
    } finally {
      this.#setBusy(key, false);
    }
  }

  #setBusy(key: string, isBusy: boolean): void {
    if (isBusy) this.#busy.add(key);
    else this.#busy.delete(key);
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Buttons of a VM, kept while they stay the same, so that the focus does. */
export class ActionButtons {
  readonly element: HTMLElement;
  readonly #actions: Actions;
  readonly #only: (offer: ActionOffer) => boolean;
  #row: VmRow | undefined;
  #shown = '';

  constructor(actions: Actions, element: HTMLElement, only: (offer: ActionOffer) => boolean = () => true) {
    this.#actions = actions;
    this.element = element;
    this.#only = only;
  }

  update(row: VmRow, isEnabled: boolean): void {
    this.#row = row;
    const offers = this.#actions.offers(row).filter(this.#only);
    const isBusy = this.#actions.isBusy(keyOfRow(row)) || !isEnabled;
    const shown = offers.map(({ action }) => action).join();
    if (shown !== this.#shown) this.#rebuild(offers, shown);
    // Not `disabled`, which would lose the focus.
    for (const button of this.element.children) button.setAttribute('aria-disabled', String(isBusy));
  }

  #rebuild(offers: readonly ActionOffer[], shown: string): void {
    const focused = [...this.element.querySelectorAll('button')].findIndex((button) => button.matches(':focus'));
    this.#shown = shown;
    this.element.replaceChildren(...offers.map((offer) => this.#button(offer)));
    // What was pressed has most often become its opposite.
    if (focused >= 0) this.element.querySelectorAll('button')[Math.min(focused, offers.length - 1)]?.focus();
  }

  #button(offer: ActionOffer): HTMLButtonElement {
    const click = () => {
      if (this.#row && button.getAttribute('aria-disabled') !== 'true') void this.#actions.run(this.#row, offer);
    };
    const name = this.#row?.name ?? '';
    const attributes = {
      type: 'button',
      'data-action': offer.action,
      on: { click },
      'aria-label': `${offer.label} ${name}`,
    };
    const button = el('button', attributes, icon(offer.action), el('span', {}, offer.label));
    return button;
  }
}
