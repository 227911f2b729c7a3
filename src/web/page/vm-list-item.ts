import type { VmRow } from '../rows.ts';
import { ActionButtons, type Actions } from './actions.ts';
import { el, icon, setAttribute, setText } from './dom.ts';
import { vmHref } from './route.ts';
import { hasGuest, notesOf, noteText, statusOf, toneOf } from './row-model.ts';
import { keyOfRow } from './store.ts';
import { age } from './words.ts';

const inFront: readonly string[] = ['start', 'stop', 'pause', 'unpause'];

/** A VM in the list: made once, then kept at what its row says. */
export class VmListItem {
  readonly element: HTMLLIElement;
  readonly thumbnail = el('canvas', { width: 192, height: 120 });
  readonly #badge = el('span', { class: 'badge' });
  readonly #note = el('p', { class: 'note' });
  readonly #guestOs = el('span', { class: 'guest-os' });
  readonly #ip = el('span', { class: 'ip' });
  readonly #age = el('time', { class: 'age' });
  readonly #links: readonly HTMLAnchorElement[];
  readonly #front: ActionButtons;
  readonly #more: ActionButtons;
  readonly #menu: HTMLDetailsElement;

  constructor(row: VmRow, actions: Actions) {
    const { namespace, name } = row;
    const to = (tab: 'console' | 'screen', label: string) =>
      el(
        'a',
        { class: 'button', href: vmHref(row, tab), 'aria-label': `${label} of ${name}` },
        icon(tab),
        el('span', {}, label),
      );
    this.#links = [to('console', 'Console'), to('screen', 'Screen')];
    this.#front = new ActionButtons(actions, el('span', { class: 'group' }), ({ action }) => inFront.includes(action));
    this.#more = new ActionButtons(actions, el('div', { class: 'group' }), ({ action }) => !inFront.includes(action));
    const why = el('a', { class: 'button', href: vmHref(row, 'why') }, icon('why'), el('span', {}, 'Why is it so?'));
    const summary = el('summary', { class: 'button', 'aria-label': `More for ${name}` }, icon('more'));
    this.#menu = el('details', { class: 'menu' }, summary, el('div', { class: 'menu-items' }, this.#more.element, why));
    closeWhenLeft(this.#menu, summary);
    const picture = el(
      'a',
      { class: 'shot', href: vmHref(row, 'screen'), tabindex: -1, 'aria-hidden': 'true' },
      icon('screen'),
      this.thumbnail,
    );
    const title = el('h2', {}, el('a', { href: vmHref(row, 'overview') }, name));
    this.element = el(
      'li',
      { class: 'vm', 'data-key': keyOfRow(row) },
      picture,
      el('div', { class: 'vm-name' }, title, el('p', { class: 'namespace' }, namespace)),
      el('div', { class: 'vm-status' }, this.#badge, this.#note),
      el('div', { class: 'vm-guest' }, this.#guestOs, this.#ip),
      el('div', { class: 'vm-age' }, this.#age),
      el('div', { class: 'vm-actions' }, ...this.#links, this.#front.element, this.#menu),
    );
    this.update(row, true, Date.now());
  }

  update(row: VmRow, isCurrent: boolean, now: number): void {
    setText(this.#badge, statusOf(row));
    setAttribute(this.#badge, 'data-tone', toneOf(row));
    const notes = notesOf(row).map(noteText);
    setText(this.#note, notes[0] ?? '');
    setAttribute(this.#note, 'title', notes.length > 0 ? notes.join('\n') : undefined);
    setText(this.#guestOs, row.vmi?.guestOs ?? '');
    setText(this.#ip, row.vmi?.ip ?? '');
    setText(this.#age, age(row.createdAt, now));
    setAttribute(this.#age, 'datetime', row.createdAt);
    setAttribute(this.#age, 'title', `created ${new Date(row.createdAt).toLocaleString()}`);
    for (const link of this.#links) setAttribute(link, 'aria-disabled', hasGuest(row) ? undefined : 'true');
    this.#front.update(row, isCurrent);
    this.#more.update(row, isCurrent);
  }
}

/** A menu is open as long as somebody is in it. */
function closeWhenLeft(menu: HTMLDetailsElement, summary: HTMLElement): void {
  menu.addEventListener('focusout', ({ relatedTarget }) => {
    if (relatedTarget instanceof Node && menu.contains(relatedTarget)) return;
    // Nothing is focused while a button inside is pressed with a mouse in some browsers.
    if (relatedTarget || !menu.matches(':hover')) menu.open = false;
  });
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !menu.open) return;
    menu.open = false;
    summary.focus();
  });
  menu.addEventListener('click', ({ target }) => {
    if (target instanceof Element && target.closest('.menu-items')) menu.open = false;
  });
}
