import type { Actions } from './actions.ts';
import type { Announcer } from './announce.ts';
import type { Store } from './store.ts';

/** What fills the page below its head, until another address is shown. */
export interface View {
  /** Of the window; the heading says the same. */
  readonly title: string;
  readonly element: HTMLElement;
  /** Where the focus goes when the view comes; else to its heading. */
  focus?(): void;
  close(): void;
}

export interface ViewDeps {
  readonly store: Store;
  readonly actions: Actions;
  readonly announcer: Announcer;
}
