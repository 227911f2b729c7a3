import { el } from './dom.ts';

export interface Fact {
  readonly term: string;
  readonly text: string;
  readonly class?: string;
}

/** Terms with what there is to say about each. */
export function factList(facts: readonly Fact[]): HTMLDListElement {
  return el('dl', { class: 'facts' }, ...facts.map(factItem));
}

function factItem({ term, text, ...attributes }: Fact): HTMLElement {
  return el('div', {}, el('dt', {}, term), el('dd', attributes, text));
}

export function card(title: string, ...content: readonly (Node | string | undefined | false)[]): HTMLElement {
  return el('div', { class: 'card' }, el('h2', {}, title), ...content);
}
