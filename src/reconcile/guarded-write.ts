/** One try to put what is wanted onto `base`. `Note`: what the writer wants to know of it afterwards. */
export type WriteAttempt<T, Note, Refusal> =
  /** Nothing differs, so nothing was sent. */
  | { readonly kind: 'unchanged'; readonly note: Note }
  | { readonly kind: 'written'; readonly object: T; readonly note: Note }
  /** 409, or 422 to a test of a guarded patch: others wrote in between. */
  | { readonly kind: 'conflict' }
  /** 404. */
  | { readonly kind: 'gone' }
  /** The content is not taken. The same again would be refused again. */
  | { readonly kind: 'refused'; readonly refusal: Refusal };

/** What became of a write. An API server that does not answer is no result: the write rejects. */
export type WriteOutcome<Note, Refusal> =
  | { readonly kind: 'unchanged' | 'written'; readonly note: Note }
  | { readonly kind: 'gone' }
  /** The object changed so that the decision may no longer hold: observe again, the newest object is known. */
  | { readonly kind: 'outdated' }
  /** Others changed the object at every try. */
  | { readonly kind: 'conflicts' }
  | { readonly kind: 'refused'; readonly refusal: Refusal };

export interface GuardedWrite<T, Note, Refusal> {
  /** Projects what was decided onto `base` and sends it. */
  readonly attempt: (base: T) => Promise<WriteAttempt<T, Note, Refusal>>;
  /** Asked from the API server, never from a cache; undefined: there is none. */
  readonly newest: () => Promise<T | undefined>;
  /** What the decision was based on is in `newest` as it was. */
  readonly stillHolds: (observed: T, newest: T) => boolean;
  /** Hears of each object that the API server answered: the own writes on top of the cache (`ReadYourWrites.saw`). */
  readonly saw: (newer: T) => void;
  /** Attempts before the key goes to its back-off. */
  readonly tries: number;
}

/**
 * Writes what was decided on `observed`. After a conflict the newest object is read and the same projection is put on it at
 * once, as long as the decision still holds there; no step is repeated for it.
 */
export async function writeGuarded<T, Note, Refusal>(
  observed: T,
  { attempt, newest: readNewest, stillHolds, saw, tries }: GuardedWrite<T, Note, Refusal>,
): Promise<WriteOutcome<Note, Refusal>> {
  let base = observed;
  for (let tried = 0; tried < tries; tried++) {
    const result = await attempt(base);
    if (result.kind === 'written') saw(result.object);
    if (result.kind !== 'conflict') return outcomeOf(result);
    const newest = await readNewest();
    if (!newest) return { kind: 'gone' };
    saw(newest);
    if (!stillHolds(observed, newest)) return { kind: 'outdated' };
    base = newest;
  }
  return { kind: 'conflicts' };
}

function outcomeOf<T, Note, Refusal>(
  result: Exclude<WriteAttempt<T, Note, Refusal>, { kind: 'conflict' }>,
): WriteOutcome<Note, Refusal> {
  switch (result.kind) {
    case 'written':
    case 'unchanged':
      return { kind: result.kind, note: result.note };
    default:
      return result;
  }
}
