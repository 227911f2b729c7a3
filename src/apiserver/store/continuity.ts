import type { StateRecord } from './records.ts';
import { type FoundMark, type Mark, reservedAtOnce } from './watermark.ts';

/** What a database no longer has, or may no longer have, of what was acknowledged. */
export interface Loss {
  readonly kind: /** The newest changes. */
    | 'changes'
    /** All of it: its directory was emptied. */
    | 'everything'
    /** Whether something is lost cannot be known: the watermark is damaged. */
    | 'unknown';
  /** Revision of the last acknowledged change; 0 when unknown. */
  readonly acknowledged: number;
  /** Revision up to which the database has all. */
  readonly found: number;
}

export interface Start {
  /** The store goes on with the next one: above all that were ever handed out. */
  readonly revision: number;
  readonly loss: Loss | undefined;
  /** What the watermark says from now on; it forgets no loss before the first change after it. */
  readonly mark: Mark;
}

/** More than are handed out between two looks. */
const unknownGap = 1_000_000;

/** Pure. `isNew`: the database was made right now. */
export function judge(found: FoundMark, state: StateRecord, isNew: boolean): Start {
  const { count } = state;
  if (found.kind !== 'found') {
    const revision = isNew && found.kind === 'none' ? state.revision : state.revision + unknownGap;
    const loss: Loss | undefined =
      found.kind === 'none' ? undefined : { kind: 'unknown', acknowledged: 0, found: state.revision };
    return { revision, loss, mark: { revision: state.revision, count, reserved: revision + reservedAtOnce } };
  }
  const revision = Math.max(found.mark.reserved, state.revision);
  const reserved = revision + reservedAtOnce;
  if (found.mark.revision <= state.revision) {
    return { revision, loss: undefined, mark: { revision: state.revision, count, reserved } };
  }
  const loss: Loss = {
    kind: isNew ? 'everything' : 'changes',
    acknowledged: found.mark.revision,
    found: isNew ? 0 : state.revision,
  };
  // A new database has nothing that could be missing: a start that ends before its first change must not keep out the next one.
  return { revision, loss, mark: { ...found.mark, reserved, ...(isNew && { count: 0 }) } };
}

/** A sentence for people. */
export function lossMessage({ kind, acknowledged, found }: Loss): string {
  if (kind === 'everything') {
    return `the database was empty: its ${acknowledged} revisions are gone, apply the objects again`;
  }
  if (kind === 'unknown') {
    return 'the watermark of the database was damaged: whether the newest changes were lost is unknown, compare the objects with what they should be';
  }
  return (
    `the newest ${acknowledged - found} changes of the database were lost: it came back at revision ${found}, ` +
    `${acknowledged} was acknowledged; compare the objects with what they should be, and look after the disk`
  );
}
