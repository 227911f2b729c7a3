type Child = Node | string | undefined | false;

type Handlers = { readonly [Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void };

export interface Attributes {
  readonly class?: string;
  readonly on?: Handlers;
  readonly [name: string]: string | number | boolean | Handlers | undefined;
}

/** An element. An attribute that is true is set without a value, one that is false or undefined is left out. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  const { on = {}, ...plain } = attributes;
  for (const [name, value] of Object.entries(plain)) {
    if (typeof value === 'object' || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const [name, handler] of Object.entries(on)) element.addEventListener(name, handler as EventListener);
  element.append(...children.filter((child) => child !== undefined && child !== false));
  return element;
}

/** Leaves the page alone when nothing changes: a selection stays, a screen reader keeps quiet. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element: Element, name: string, value: string | undefined): void {
  if (value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Children become `wanted` in this order; those that stay in place are not touched, so that focus stays where it is. */
export function setChildren(parent: Element, wanted: readonly Element[]): void {
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const element of wanted) {
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
  }
}

const svg = 'http://www.w3.org/2000/svg';

/** Outlines in a square of 16; drawn with the colour of the text. */
const outlines = {
  console: 'M2 3h12v10H2z M4.5 6l2 2-2 2 M8 10.5h3.5',
  screen: 'M1.5 3h13v8.5h-13z M5.5 14h5',
  start: 'M4.5 3l8 5-8 5z',
  stop: 'M4 4h8v8H4z',
  pause: 'M5 3.5v9 M11 3.5v9',
  unpause: 'M3.5 3.5v9 M7 3.5l6.5 4.5L7 12.5z',
  softreboot: 'M13 8a5 5 0 1 1-1.6-3.7 M13.5 2v3h-3',
  reset: 'M9 1.5L4 9h4l-1 5.5L12 7H8z',
  why: 'M8 14.5a6.5 6.5 0 1 1 0-13 6.5 6.5 0 0 1 0 13z M6 6.2c.2-2.6 4.2-2.4 4 .1-.1 1.5-2 1.5-2 3 M8 11.4v.6',
  overview: 'M2.5 3.5h11 M2.5 8h11 M2.5 12.5h7',
  more: 'M3.2 8h.1 M8 8h.1 M12.8 8h.1',
  back: 'M9.5 3.5L5 8l4.5 4.5',
  theme: 'M8 1.5a6.5 6.5 0 1 0 0 13z M8 1.5a6.5 6.5 0 0 1 0 13',
  full: 'M2 6V2h4 M10 2h4v4 M14 10v4h-4 M6 14H2v-4',
} as const;

export type IconName = keyof typeof outlines;

/** Decoration: the words beside it say the same. */
export function icon(name: IconName): SVGSVGElement {
  const image = document.createElementNS(svg, 'svg');
  image.setAttribute('viewBox', '0 0 16 16');
  image.setAttribute('aria-hidden', 'true');
  image.classList.add('icon');
  const path = document.createElementNS(svg, 'path');
  path.setAttribute('d', outlines[name]);
  image.append(path);
  return image;
}

/** The keys that give the keyboard back to the page. */
export function leaveHint(what: 'terminal' | 'screen'): HTMLElement {
  const [first, ...others] = ['Ctrl', 'Alt', 'Esc'].map((key) => el('kbd', {}, key));
  return el('p', { class: 'hint' }, first, ...others.flatMap((key) => ['+', key]), ` leaves the ${what}`);
}
