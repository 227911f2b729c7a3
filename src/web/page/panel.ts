import type { VmRow } from '../rows.ts';

/** One of the four sides of a VM. */
export interface Panel {
  readonly element: HTMLElement;
  /** Undefined: there is no such VM (any more). */
  update(row: VmRow | undefined): void;
  focus?(): void;
  close(): void;
}
