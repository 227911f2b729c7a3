import { isDeepStrictEqual } from 'node:util';
import type { ExplainFacts } from '../api/index.ts';
import { decisionRecord } from './decision-record.ts';
import type { Decided, ReconcileParts } from './reconcile-parts.ts';
import type { Observed } from './reporter.ts';

type Parts<Observation extends Observed, Decision extends Decided> = ReconcileParts<
  Observation,
  Decision,
  ExplainFacts
>;

/**
 * The parts of a kind that describes what it observed in few words for people: `seenOf` is what is kept for "explain", its keys are
 * the names of the log fields, too, and a failure that comes back while it says the same is a crash loop.
 */
export function factsParts<Observation extends Observed, Decision extends Decided>(
  seenOf: (observation: Observation) => ExplainFacts,
  words: Omit<Parts<Observation, Decision>['words'], 'logFields'>,
): Pick<Parts<Observation, Decision>, 'record' | 'seen' | 'isSameSeen' | 'crashLoop' | 'words'> {
  return {
    record: ({ observation, decision, outcomes }) =>
      decisionRecord(observation, decision, outcomes, { seen: seenOf(observation) }),
    seen: (observation) => (observation ? seenOf(observation) : {}),
    isSameSeen: isDeepStrictEqual,
    crashLoop: {
      wishOf: (observation) => JSON.stringify(seenOf(observation)),
      stateOf: () => '',
      isOvertaken: () => false,
      event: () => undefined,
    },
    words: { ...words, logFields: (seen) => seen },
  };
}
