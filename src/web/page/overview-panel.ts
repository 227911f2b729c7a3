import type { VmRow } from '../rows.ts';
import { el, setChildren } from './dom.ts';
import { guestDetails } from './guest-details.ts';
import { hasGuest } from './row-model.ts';
import type { Store } from './store.ts';
import { Thumbnails } from './thumbnails.ts';
import type { Panel } from './vm-view.ts';
import { ago } from './words.ts';

/** Facts of a VM, its conditions, its screen in small. */
export class OverviewPanel implements Panel {
  readonly element = el('div', { class: 'overview' });
  readonly #vm: { readonly namespace: string; readonly name: string };
  readonly #store: Store;
  readonly #thumbnails = new Thumbnails();
  readonly #canvas = el('canvas', { width: 640, height: 400, role: 'img', 'aria-label': 'Picture of the screen' });
  readonly #facts = el('dl', { class: 'facts' });
  readonly #conditions = el('tbody');
  readonly #conditionsTable: HTMLElement;
  readonly #guest = el('div', { class: 'guest-details' });
  readonly #ending = new AbortController();
  /** Of the guest that was asked for its details. */
  #askedUid: string | undefined;

  constructor(vm: { readonly namespace: string; readonly name: string }, store: Store) {
    this.#vm = vm;
    this.#store = store;
    const head = ['Condition', 'Status', 'Why', 'Since'].map((text) => el('th', { scope: 'col' }, text));
    this.#conditionsTable = el(
      'div',
      { class: 'card' },
      el('h2', {}, 'Conditions'),
      el('div', { class: 'scrolls' }, el('table', {}, el('thead', {}, el('tr', {}, ...head)), this.#conditions)),
    );
    this.element.append(
      el('div', { class: 'card' }, el('h2', {}, 'Facts'), this.#facts),
      el('div', { class: 'card shot-card' }, el('h2', {}, 'Screen'), this.#canvas),
      this.#guest,
      this.#conditionsTable,
    );
  }

  update(row: VmRow | undefined): void {
    if (!row) {
      const gone = `There is no virtual machine ${this.#vm.namespace}/${this.#vm.name} on this node (any more).`;
      this.element.replaceChildren(el('p', { class: 'nothing' }, gone));
      return;
    }
    if (!this.#facts.isConnected && this.element.firstElementChild?.matches('.nothing')) return;
    const now = Date.now();
    this.#facts.replaceChildren(
      ...factsOf(row, this.#store.node).flatMap(([term, text]) => [el('dt', {}, term), el('dd', {}, text)]),
    );
    setChildren(this.#conditions, conditionRows(row, now));
    this.#conditionsTable.hidden = row.conditions.length === 0;
    this.#thumbnails.show(this.#canvas, row);
    this.#askGuest(row);
  }

  close(): void {
    this.#ending.abort();
    this.#thumbnails.close();
  }

  #askGuest(row: VmRow): void {
    const hasAgent = row.conditions.some(({ type, status }) => type === 'AgentConnected' && status === 'True');
    const uid = hasGuest(row) && hasAgent ? row.vmi?.uid : undefined;
    if (uid === this.#askedUid) return;
    this.#askedUid = uid;
    this.#guest.replaceChildren();
    if (uid === undefined) return;
    void guestDetails(row, this.#ending.signal).then((cards) => {
      if (this.#askedUid === uid) this.#guest.replaceChildren(...cards);
    });
  }
}

function factsOf({ namespace, vmi, runStrategy, createdAt }: VmRow, node: string): readonly [string, string][] {
  return [
    ['Namespace', namespace],
    ['Node', node],
    ['Address', vmi?.ip ?? '–'],
    ['System', vmi?.guestOs ?? '–'],
    ['Run strategy', runStrategy ?? 'none: an instance without a VirtualMachine'],
    ['Created', new Date(createdAt).toLocaleString()],
    ['Instance', vmi?.uid ?? 'none: it does not run'],
  ];
}

function conditionRows({ conditions }: VmRow, now: number): HTMLElement[] {
  return conditions.map(({ type, status, reason, message, lastTransitionTime }) =>
    el(
      'tr',
      {},
      el('th', { scope: 'row' }, type),
      el('td', {}, status),
      el('td', {}, [reason, message].filter(Boolean).join(': ')),
      el('td', {}, lastTransitionTime ? ago(lastTransitionTime, now) : ''),
    ),
  );
}
