import type { VmRow } from '../rows.ts';
import { el, setChildren } from './dom.ts';
import { card, type Fact, factList } from './facts.ts';
import { guestDetails } from './guest-details.ts';
import type { Panel } from './panel.ts';
import { hasGuest } from './row-model.ts';
import type { Store } from './store.ts';
import { Thumbnails } from './thumbnails.ts';
import { ago } from './words.ts';

/** Facts of a VM, its conditions, its screen in small. */
export class OverviewPanel implements Panel {
  readonly element = el('div', { class: 'overview' });
  readonly #vm: { readonly namespace: string; readonly name: string };
  readonly #store: Store;
  readonly #thumbnails = new Thumbnails();
  readonly #canvas = el('canvas', { width: 640, height: 400, role: 'img', 'aria-label': 'Picture of the screen' });
  readonly #facts = el('div');
  readonly #screen = card('Screen', this.#canvas);
  readonly #factsCard = card('Facts', this.#facts);
  readonly #guest = el('div', { class: 'guest-details' });
  readonly #conditions = el('tbody');
  readonly #conditionsCard: HTMLElement;
  readonly #ending = new AbortController();
  /** Of the guest that was asked for its details. */
  #askedUid: string | undefined;

  constructor(vm: { readonly namespace: string; readonly name: string }, store: Store) {
    this.#vm = vm;
    this.#store = store;
    const head = ['Condition', 'Status', 'Why', 'Since'].map((text) => el('th', { scope: 'col' }, text));
    const table = el('table', {}, el('thead', {}, el('tr', {}, ...head)), this.#conditions);
    this.#conditionsCard = card('Conditions', el('div', { class: 'scrolls' }, table));
    this.#conditionsCard.classList.add('is-wide');
    this.#screen.classList.add('shot-card');
  }

  update(row: VmRow | undefined): void {
    if (!row) {
      const gone = `There is no virtual machine ${this.#vm.namespace}/${this.#vm.name} on this node.`;
      this.element.replaceChildren(el('p', { class: 'nothing' }, gone));
      return;
    }
    setChildren(this.element, [this.#factsCard, this.#screen, this.#guest, this.#conditionsCard]);
    this.#facts.replaceChildren(factList(factsOf(row, this.#store.node)));
    setChildren(this.#conditions, conditionRows(row, Date.now()));
    this.#conditionsCard.hidden = row.conditions.length === 0;
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

function factsOf({ namespace, vmi, runStrategy, createdAt }: VmRow, node: string): readonly Fact[] {
  return [
    { term: 'Namespace', text: namespace },
    { term: 'Node', text: node },
    { term: 'Address', text: vmi?.ip ?? '–' },
    { term: 'System', text: vmi?.guestOs ?? '–' },
    { term: 'Run strategy', text: runStrategy ?? 'none: an instance without a VirtualMachine' },
    { term: 'Created', text: new Date(createdAt).toLocaleString() },
    { term: 'Instance', text: vmi?.uid ?? 'none: it does not run' },
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
      el('td', { class: 'when' }, lastTransitionTime ? ago(lastTransitionTime, now) : ''),
    ),
  );
}
