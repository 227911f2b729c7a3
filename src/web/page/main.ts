import { Actions } from './actions.ts';
import { AgentView } from './agent-view.ts';
import { Announcer } from './announce.ts';
import { el, setText } from './dom.ts';
import { followVms } from './feed.ts';
import { showHelp } from './help.ts';
import { ListView } from './list-view.ts';
import { parseRoute } from './route.ts';
import { enter } from './session.ts';
import { followKeys } from './shortcuts.ts';
import { Store } from './store.ts';
import { themeButton } from './theme.ts';
import type { View, ViewDeps } from './view.ts';
import { VmView } from './vm-view.ts';
import { capitalised } from './words.ts';

const store = new Store();
const announcer = new Announcer();
const deps: ViewDeps = { store, announcer, actions: new Actions(store, announcer) };
const main = el('main', { id: 'main', tabindex: -1 });
let view: View | undefined;

document.body.append(
  el('a', { class: 'skip', href: '#main', on: { click: (event) => skip(event) } }, 'Skip to the content'),
  head(),
  banner(),
  main,
  announcer.element,
);
followKeys();
window.addEventListener('hashchange', () => void come(true));
let again: (() => void) | undefined;
void come(false);

/** Also when somebody puts an address with another token into a page that is open. */
async function come(takesFocus: boolean): Promise<void> {
  const isNew = await enter().catch(() => false);
  show(takesFocus);
  if (!again) again = followVms(store);
  else if (isNew) again();
}

function show(takesFocus: boolean): void {
  const route = parseRoute(location.hash);
  view?.close();
  view = route.view === 'vm' ? new VmView(route, deps) : route.view === 'agent' ? new AgentView() : new ListView(deps);
  main.replaceChildren(view.element);
  for (const link of document.querySelectorAll('.places a')) {
    const isHere = link.getAttribute('href') === (route.view === 'agent' ? '#/agent' : '#/') && route.view !== 'vm';
    if (isHere) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.title = `${view.title} · Virtual machines`;
  scrollTo(0, 0);
  if (!takesFocus) return;
  if (view.focus) view.focus();
  else view.element.querySelector('h1')?.focus();
}

function skip(event: Event): void {
  event.preventDefault();
  main.focus();
}

function head(): HTMLElement {
  const node = el('span', { class: 'node' });
  const link = el('span', { class: 'link', role: 'status' });
  store.subscribe(() => {
    setText(node, store.node);
    node.title = store.node === '' ? '' : `Node ${store.node}`;
    setText(link, store.link === 'live' ? 'live' : '');
  });
  const places = el(
    'nav',
    { class: 'places', 'aria-label': 'Places' },
    el('a', { href: '#/' }, 'Machines'),
    el('a', { href: '#/agent' }, 'Agent'),
  );
  const help = el(
    'button',
    { type: 'button', class: 'plain', 'aria-label': 'Keys', title: 'Keys (?)', on: { click: showHelp } },
    '?',
  );
  return el('header', {}, node, link, places, el('span', { class: 'space' }), themeButton(), help);
}

/** What keeps the page from showing what is. */
function banner(): HTMLElement {
  const text = el('p');
  const element = el('div', { class: 'banner', role: 'alert', hidden: true }, text);
  store.subscribe(() => {
    setText(text, bannerText());
    element.hidden = text.textContent === '';
  });
  return element;
}

function bannerText(): string {
  switch (store.link) {
    case 'denied':
      return `${capitalised(store.denial)}.`;
    case 'lost':
      return 'The server does not answer: reconnecting. What you see is what was known last.';
    case 'live':
      return store.problem === undefined ? '' : `What you see may be old: ${store.problem}.`;
    case 'connecting':
      return '';
  }
}
