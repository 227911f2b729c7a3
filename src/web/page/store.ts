import type { VmChange, VmList, VmRow } from '../rows.ts';

/** How the page stands with its server. `denied`: it has no session, or one of before. */
export type Link = 'connecting' | 'live' | 'lost' | 'denied';

/** What the page knows of the node; views are told of every change. */
export class Store {
  readonly #rows = new Map<string, VmRow>();
  readonly #listeners = new Set<() => void>();
  link: Link = 'connecting';
  node = '';
  actions = false;
  /** Why it is denied, and what to do. */
  denial = '';
  /** Why the rows may be old. */
  problem: string | undefined;
  /** The rows were there once. */
  isLoaded = false;

  get rows(): readonly VmRow[] {
    return [...this.#rows.values()];
  }

  row(key: string): VmRow | undefined {
    return this.#rows.get(key);
  }

  /** Nothing keeps what is shown from being true. */
  get isCurrent(): boolean {
    return this.link === 'live' && this.problem === undefined;
  }

  /** The returned function ends it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  setLink(link: Link): void {
    if (this.link === link) return;
    this.link = link;
    this.#tell();
  }

  deny(denial: string): void {
    if (this.link === 'denied' && this.denial === denial) return;
    this.denial = denial;
    this.link = 'denied';
    this.#tell();
  }

  replace({ node, actions, problem, rows }: VmList): void {
    this.#rows.clear();
    for (const row of rows) this.#rows.set(keyOfRow(row), row);
    Object.assign(this, { node, actions, problem, link: 'live', isLoaded: true });
    this.#tell();
  }

  change({ problem, rows, gone }: VmChange): void {
    for (const key of gone) this.#rows.delete(key);
    for (const row of rows) this.#rows.set(keyOfRow(row), row);
    this.problem = problem;
    this.#tell();
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

export function keyOfRow({ namespace, name }: Pick<VmRow, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`;
}
