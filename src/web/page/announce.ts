import { el } from './dom.ts';

const shownMs = 6_000;

/** Short messages: said by screen readers, seen for a while. Errors stay until they are put away. */
export class Announcer {
  readonly element = el('div', { class: 'messages' });
  readonly #polite = el('div', { role: 'status' });
  readonly #urgent = el('div', { role: 'alert' });

  constructor() {
    this.element.append(this.#polite, this.#urgent);
  }

  say(text: string): void {
    const message = el('p', { class: 'message' }, text);
    this.#polite.replaceChildren(message);
    setTimeout(() => message.remove(), shownMs);
  }

  fail(text: string): void {
    const close = el('button', { type: 'button', class: 'plain', on: { click: () => message.remove() } }, 'Close');
    const message = el('p', { class: 'message is-bad' }, el('span', {}, text), close);
    this.#urgent.append(message);
    while (this.#urgent.children.length > 3) this.#urgent.firstElementChild?.remove();
  }
}
