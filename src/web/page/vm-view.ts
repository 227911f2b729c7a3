import { ActionButtons } from './actions.ts';
import { ConsolePanel } from './console-panel.ts';
import { el, icon, setAttribute, setText } from './dom.ts';
import { ExplainPanel } from './explain-panel.ts';
import { OverviewPanel } from './overview-panel.ts';
import type { Panel } from './panel.ts';
import { type Route, type VmTab, vmHref, vmTabs } from './route.ts';
import { statusOf, toneOf } from './row-model.ts';
import { ScreenPanel } from './screen-panel.ts';
import { keyOfRow } from './store.ts';
import type { View, ViewDeps } from './view.ts';

const labels: Readonly<Record<VmTab, string>> = {
  overview: 'Overview',
  console: 'Console',
  screen: 'Screen',
  why: 'Why',
};

type VmRoute = Extract<Route, { view: 'vm' }>;

/** One VM: what it is, what can be done, and one of its sides. */
export class VmView implements View {
  readonly title: string;
  readonly element: HTMLElement;
  readonly #deps: ViewDeps;
  readonly #key: string;
  readonly #badge = el('span', { class: 'badge' });
  readonly #buttons: ActionButtons;
  readonly #panel: Panel;
  readonly #ends: readonly (() => void)[];

  constructor(route: VmRoute, deps: ViewDeps) {
    const { namespace, name, tab } = route;
    this.#deps = deps;
    this.#key = keyOfRow(route);
    this.title = `${name}: ${labels[tab]}`;
    this.#buttons = new ActionButtons(deps.actions, el('div', { class: 'vm-buttons' }));
    this.#panel = panelOf(route, deps);
    const back = el('a', { class: 'button plain', href: '#/', 'aria-label': 'All virtual machines' }, icon('back'));
    const heading = el('h1', { tabindex: -1 }, name, ' ', el('span', { class: 'namespace' }, namespace));
    const tabs = vmTabs.map((known) => {
      const attributes = { href: vmHref(route, known), 'aria-current': known === tab ? 'page' : undefined };
      return el('a', attributes, icon(known), labels[known]);
    });
    this.element = el(
      'section',
      { class: `vm-view is-${tab}` },
      el('div', { class: 'view-head' }, back, heading, this.#badge, this.#buttons.element),
      el('nav', { class: 'tabs', 'aria-label': `Sides of ${name}` }, ...tabs),
      this.#panel.element,
    );
    const update = () => this.#update();
    this.#ends = [deps.store.subscribe(update), deps.actions.onChange(update)];
    this.#update();
  }

  focus(): void {
    if (this.#panel.focus) this.#panel.focus();
    else this.element.querySelector('h1')?.focus();
  }

  close(): void {
    for (const end of this.#ends) end();
    this.#panel.close();
  }

  #update(): void {
    const { store } = this.#deps;
    const row = store.row(this.#key);
    setText(this.#badge, row ? statusOf(row) : store.isLoaded ? 'Not here' : '');
    setAttribute(this.#badge, 'data-tone', row ? toneOf(row) : 'off');
    setAttribute(this.element, 'data-old', store.isCurrent ? undefined : '');
    if (row) this.#buttons.update(row, store.isCurrent);
    else this.#buttons.element.replaceChildren();
    if (store.isLoaded) this.#panel.update(row);
  }
}

function panelOf(route: VmRoute, deps: ViewDeps): Panel {
  switch (route.tab) {
    case 'overview':
      return new OverviewPanel(route, deps.store);
    case 'console':
      return new ConsolePanel(route);
    case 'screen':
      return new ScreenPanel(route);
    case 'why':
      return new ExplainPanel(route);
  }
}
