import type { VmRow } from '../rows.ts';
import { hasGuest } from './row-model.ts';

/** The guest that a panel shows, of a machine that may be started again with another one. */
export class FollowedGuest {
  #uid: string | undefined;

  /** True: there is a guest to join anew. `isJoined`: the panel is with the one it had, or on its way to it. */
  update(row: VmRow | undefined, isJoined: boolean): boolean {
    const before = this.#uid;
    const uid = row && hasGuest(row) ? row.vmi?.uid : undefined;
    this.#uid = uid;
    if (uid === undefined) return false;
    return before === undefined ? !isJoined : uid !== before;
  }
}
