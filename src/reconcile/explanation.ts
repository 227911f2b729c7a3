import type { ExplainQuarantine, ExplainTry, Key } from '../api/index.ts';
import type { CrashLoopBackoff } from './crash-loop-backoff.ts';
import type { DecisionLog } from './decision-log.ts';
import type { DecisionRecord } from './decision-record.ts';

/** What a loop remembers of its decisions; a `Reconciler` is one. Answers are from memory only. */
export interface ExplainSource<Seen> {
  readonly decisions: DecisionLog<Seen>;
  readonly crashLoops: Pick<CrashLoopBackoff, 'of'>;
  tryOf(key: Key): ExplainTry;
}

/** What a kind says of a decision in words of its own. */
export interface ExplainWords<Seen> {
  /** The sentence of the rule. */
  readonly why: (record: DecisionRecord<Seen>) => string;
  /** What is wrong now, by the last decision. */
  readonly problem: (last: DecisionRecord<Seen>) => string | undefined;
}

interface Identity {
  readonly namespace: string;
  readonly name: string;
}

interface Gone {
  /** Present when the object is no more. */
  readonly goneAt?: string;
}

interface Standing {
  readonly problem?: string;
  readonly nextTry: ExplainTry;
}

/** One object, for its report. Fields stand in the order of the documents. */
export interface ExplainedObject<Seen> {
  readonly state: Identity & Gone & Standing;
  readonly crashLoop: ExplainQuarantine | undefined;
  /** Oldest first. */
  readonly decisions: readonly (DecisionRecord<Seen> & { readonly why: string })[];
}

/** Undefined: nothing was decided about the object. */
export function explainObject<Seen>(
  key: Key,
  source: ExplainSource<Seen>,
  words: ExplainWords<Seen>,
): ExplainedObject<Seen> | undefined {
  const decisions = source.decisions.of(key);
  const last = decisions.at(-1);
  if (!last) return undefined;
  return {
    state: { ...identityOf(key), ...goneAt(source, key), ...standingOf(source, key, words.problem(last)) },
    crashLoop: source.crashLoops.of(key),
    decisions: decisions.map((record) => ({ ...record, why: words.why(record) })),
  };
}

/** One of all objects, for a list. Between the two groups of fields the kind may put its own. */
export interface ExplainedItem<Seen> {
  readonly key: Key;
  readonly last: DecisionRecord<Seen>;
  readonly object: Identity & { readonly uid: string } & Gone;
  readonly decision: { readonly rule: string; readonly why: string; readonly since: string } & Standing;
}

/** By namespace and name. */
export function explainAll<Seen>(source: ExplainSource<Seen>, words: ExplainWords<Seen>): ExplainedItem<Seen>[] {
  const keys = source.decisions.keys().sort();
  return keys.flatMap((key) => {
    const last = source.decisions.last(key);
    if (!last) return [];
    const { uid, rule, firstAt: since } = last;
    const object = { ...identityOf(key), uid, ...goneAt(source, key) };
    const standing = standingOf(source, key, words.problem(last));
    return [{ key, last, object, decision: { rule, why: words.why(last), since, ...standing } }];
  });
}

function identityOf(key: Key): Identity {
  const [first = '', second] = key.split('/');
  return second === undefined ? { namespace: '', name: first } : { namespace: first, name: second };
}

function goneAt<Seen>({ decisions }: ExplainSource<Seen>, key: Key): Gone {
  const at = decisions.goneAt(key);
  return at ? { goneAt: at.toISOString() } : {};
}

function standingOf<Seen>(source: ExplainSource<Seen>, key: Key, problem: string | undefined): Standing {
  return { ...(problem !== undefined && { problem }), nextTry: source.tryOf(key) };
}
