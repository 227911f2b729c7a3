import { Component, type ComponentChildren, type Ref } from 'preact';
import type { Tone } from './row-model.ts';

/** Outlines in a square of 16; drawn with the colour of the text. */
const outlines = {
  console: 'M2 3h12v10H2z M4.5 6l2 2-2 2 M8 10.5h3.5',
  screen: 'M1.5 3h13v8.5h-13z M5.5 14h5',
  start: 'M4.5 3l8 5-8 5z',
  stop: 'M4 4h8v8H4z',
  pause: 'M5 3.5v9 M11 3.5v9',
  unpause: 'M3.5 3.5v9 M7 3.5l6.5 4.5L7 12.5z',
  move: 'M2 8h10.5 M9 4.5L12.5 8 9 11.5 M14.5 3v10',
  'cancel-move': 'M4 4l8 8 M12 4l-8 8',
  softreboot: 'M13 8a5 5 0 1 1-1.6-3.7 M13.5 2v3h-3',
  reset: 'M9 1.5L4 9h4l-1 5.5L12 7H8z',
  why: 'M8 14.5a6.5 6.5 0 1 1 0-13 6.5 6.5 0 0 1 0 13z M6 6.2c.2-2.6 4.2-2.4 4 .1-.1 1.5-2 1.5-2 3 M8 11.4v.6',
  restart: 'M13 8a5 5 0 1 1-1.6-3.7 M13.5 2v3h-3 M7 6l3 2-3 2z',
  clone: 'M5.5 5.5h8v8h-8z M10.5 5.5v-3h-8v8h3',
  delete: 'M3 4.5h10 M6 4.5v-2h4v2 M4.5 4.5l.7 9h5.6l.7-9',
  snapshots: 'M2 5h3l1-1.5h4L11 5h3v8H2z M8 11.2a2.4 2.4 0 1 1 0-4.8 2.4 2.4 0 0 1 0 4.8z',
  devices: 'M2.5 3h11v4h-11z M2.5 9h11v4h-11z M5 5h.1 M5 11h.1',
  events: 'M8 4.5V8l2.5 2 M8 14.5a6.5 6.5 0 1 1 0-13 6.5 6.5 0 0 1 0 13z',
  logs: 'M3.5 1.5h6l3 3v10h-9z M5.5 7h5 M5.5 9.5h5 M5.5 12h3',
  yaml: 'M6 2.5c-3 0-1 5-3.5 5.5C5 8.5 3 13.5 6 13.5 M10 2.5c3 0 1 5 3.5 5.5C11 8.5 13 13.5 10 13.5',
  add: 'M8 3v10 M3 8h10',
  up: 'M8 13V3 M4 7l4-4 4 4',
  paste: 'M5 3H3.5v11.5h9V3H11 M5.5 1.5h5v3h-5z',
  save: 'M8 2v8 M4.5 7L8 10.5 11.5 7 M3 13.5h10',
  timeline: 'M2 3.5h4 M4.5 8h5 M8 12.5h6',
  overview: 'M2.5 3.5h11 M2.5 8h11 M2.5 12.5h7',
  more: 'M3.2 8h.1 M8 8h.1 M12.8 8h.1',
  back: 'M9.5 3.5L5 8l4.5 4.5',
  theme: 'M8 1.5a6.5 6.5 0 1 0 0 13z M8 1.5a6.5 6.5 0 0 1 0 13',
  full: 'M2 6V2h4 M10 2h4v4 M14 10v4h-4 M6 14H2v-4',
} as const;

/** Decoration: the words beside it say the same. No component: a list of 500 VMs has 4,000 of them. */
export function icon(name: keyof typeof outlines) {
  return (
    <svg viewBox="0 0 16 16" aria-hidden="true" class="icon">
      <path d={outlines[name]} />
    </svg>
  );
}

export function Badge({ text, tone }: { readonly text: string; readonly tone: Tone }) {
  return (
    <span class="badge" data-tone={tone}>
      {text}
    </span>
  );
}

/** The keys that give the keyboard back to the page. */
export function LeaveHint({ of }: { readonly of: 'terminal' | 'screen' }) {
  return (
    <p class="hint">
      <kbd>Ctrl</kbd>+<kbd>Alt</kbd>+<kbd>Esc</kbd> leaves the {of}
    </p>
  );
}

interface GuardProps {
  readonly instead: (error: unknown) => ComponentChildren;
  readonly children: ComponentChildren;
}

/** What cannot be drawn takes nothing else along; it is tried again with what comes next. */
export class Guard extends Component<GuardProps, { readonly error?: unknown }> {
  static override getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentWillReceiveProps(): void {
    this.setState({ error: undefined });
  }

  render({ instead, children }: GuardProps, { error }: { readonly error?: unknown }) {
    return error === undefined ? children : instead(error);
  }
}

interface CardProps {
  readonly title: string;
  /** Beside its own. */
  readonly class?: string;
  readonly children: ComponentChildren;
}

export function Card({ title, class: others = '', children }: CardProps) {
  return (
    <div class={`card ${others}`}>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export interface Fact {
  readonly term: string;
  readonly text: string;
  readonly isBad?: boolean;
}

/** Terms with what there is to say about each. */
export function Facts({ facts }: { readonly facts: readonly Fact[] }) {
  return (
    <dl class="facts">
      {facts.map(({ term, text, isBad }) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd class={isBad ? 'is-bad' : undefined}>{text}</dd>
        </div>
      ))}
    </dl>
  );
}

interface TableProps {
  readonly head?: readonly string[];
  /** Its rows are `Row`s, which are blocks where there is no room for columns. */
  readonly stacks?: boolean;
  readonly children: ComponentChildren;
}

/** Scrolls sideways where there is no room for it. Without a `head` what is in the columns needs no words. */
export function Table({ head = [], stacks = false, children }: TableProps) {
  const titles = head.map((title) => (
    <th key={title} scope="col">
      {title}
    </th>
  ));
  return (
    <div class={stacks ? 'scrolls stacks' : 'scrolls'}>
      <table>
        <thead>{titles.length > 0 && <tr>{titles}</tr>}</thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

interface RowProps {
  /** Of its table: where the row is a block, each cell says its column. */
  readonly head: readonly string[];
  /** The first one names the row. */
  readonly cells: readonly ComponentChildren[];
}

export function Row({ head, cells: [name, ...others] }: RowProps) {
  return (
    <tr>
      <th scope="row">{name}</th>
      {others.map((cell, at) => (
        <td key={head[at + 1]} data-label={head[at + 1]}>
          {cell}
        </td>
      ))}
    </tr>
  );
}

/** In place of what there is nothing of. */
export function Nothing({ children }: { readonly children: ComponentChildren }) {
  return <p class="nothing">{children}</p>;
}

/** Of what is on its way; when that takes long, it is said. */
export function Waiting({ children }: { readonly children: ComponentChildren }) {
  return (
    <p class="nothing">
      {children}
      <span class="late">There is no answer yet; it is waited for.</span>
    </p>
  );
}

/** In place of what cannot be had. */
export function Failure({ children }: { readonly children: ComponentChildren }) {
  return <p class="nothing is-bad">{children}</p>;
}

interface CheckboxProps {
  readonly id: string;
  readonly label: string;
  readonly is: boolean;
  readonly onChange: (isChecked: boolean) => void;
  readonly inputRef?: Ref<HTMLInputElement>;
}

export function Checkbox({ id, label, is, onChange, inputRef = null }: CheckboxProps) {
  const change = ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => onChange(currentTarget.checked);
  return (
    <label for={id}>
      <input type="checkbox" id={id} ref={inputRef} checked={is} onChange={change} />
      {label}
    </label>
  );
}
