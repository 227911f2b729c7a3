import type { VmRow } from '../rows.ts';
import { el, setAttribute, setChildren, setText } from './dom.ts';
import { compareRows, matches, summary } from './row-model.ts';
import { keyOfRow } from './store.ts';
import { Thumbnails } from './thumbnails.ts';
import type { View, ViewDeps } from './view.ts';
import { VmListItem } from './vm-list-item.ts';
import { count } from './words.ts';

/** Ages are written anew. */
const tickMs = 15_000;
/** What was looked for, when the list is shown again. */
let lastFilter = '';

/** All VMs of the node. */
export class ListView implements View {
  readonly title = 'Virtual machines';
  readonly element: HTMLElement;
  readonly #deps: ViewDeps;
  readonly #items = new Map<string, VmListItem>();
  readonly #thumbnails = new Thumbnails();
  readonly #summary = el('p', { class: 'summary' });
  readonly #list = el('ul', { class: 'vms', 'aria-label': 'Virtual machines' });
  readonly #nothing = el('div', { class: 'nothing' });
  readonly #filter: HTMLInputElement;
  readonly #ends: readonly (() => void)[];

  constructor(deps: ViewDeps) {
    this.#deps = deps;
    this.#filter = el('input', {
      type: 'search',
      id: 'filter',
      placeholder: 'Find',
      'aria-label': 'Find virtual machines by name, namespace, status, address or system',
      autocomplete: 'off',
      spellcheck: 'false',
      on: { input: () => this.#update() },
    });
    this.#filter.value = lastFilter;
    const head = el('div', { class: 'view-head' }, el('h1', { tabindex: -1 }, this.title), this.#summary, this.#filter);
    this.element = el('section', { class: 'list-view' }, head, this.#nothing, this.#list);
    const timer = setInterval(() => this.#update(), tickMs);
    this.#ends = [
      () => clearInterval(timer),
      deps.store.subscribe(() => this.#update()),
      deps.actions.onChange(() => this.#update()),
    ];
    this.#update();
  }

  close(): void {
    for (const end of this.#ends) end();
    this.#thumbnails.close();
  }

  #update(): void {
    const { store } = this.#deps;
    const now = Date.now();
    lastFilter = this.#filter.value;
    const rows = [...store.rows].sort(compareRows);
    const shown = rows.filter((row) => matches(row, this.#filter.value.trim()));
    const items = shown.map((row) => this.#item(row, now));
    setChildren(
      this.#list,
      items.map(({ element }) => element),
    );
    this.#forgetAllBut(new Set(shown.map(keyOfRow)));
    setText(
      this.#summary,
      store.isLoaded && rows.length > 0 ? `${count(rows.length, 'machine')}: ${summary(rows)}` : '',
    );
    setAttribute(this.#list, 'data-old', store.isCurrent ? undefined : '');
    this.#filter.hidden = rows.length < 2;
    this.#list.hidden = items.length === 0;
    this.#nothing.hidden = items.length > 0;
    this.#showNothing(rows.length);
  }

  #item(row: VmRow, now: number): VmListItem {
    const key = keyOfRow(row);
    const item = this.#items.get(key) ?? new VmListItem(row, this.#deps.actions);
    this.#items.set(key, item);
    item.update(row, this.#deps.store.isCurrent, now);
    this.#thumbnails.show(item.thumbnail, row);
    return item;
  }

  #forgetAllBut(keys: ReadonlySet<string>): void {
    for (const [key, item] of this.#items) {
      if (keys.has(key)) continue;
      this.#thumbnails.forget(item.thumbnail);
      this.#items.delete(key);
    }
  }

  #showNothing(all: number): void {
    const { isLoaded, link } = this.#deps.store;
    const kind = !isLoaded ? (link === 'denied' ? 'denied' : 'loading') : all === 0 ? 'empty' : 'unmatched';
    if (this.#nothing.dataset.kind === kind) return;
    this.#nothing.dataset.kind = kind;
    if (kind === 'denied') this.#nothing.replaceChildren();
    else if (kind === 'loading') this.#nothing.replaceChildren(el('p', {}, 'Asking for the list…'));
    else if (kind === 'unmatched') this.#nothing.replaceChildren(el('p', {}, 'No virtual machine matches.'));
    else this.#nothing.replaceChildren(...firstSteps());
  }
}

function firstSteps(): HTMLElement[] {
  return [
    el('h2', {}, 'No virtual machines yet'),
    el('p', {}, 'Make one in a terminal, and it appears here:'),
    el('pre', {}, el('code', {}, 'kubectl apply -f examples/vm.yaml')),
  ];
}
