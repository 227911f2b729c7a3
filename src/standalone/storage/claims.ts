import { type ClaimFacts, observeClaim } from './claim-facts.ts';
import { type ClaimStepArgs, decideClaim } from './claim-rules.ts';
import { claimExecutors } from './claim-steps.ts';
import type { StorageKind } from './loop.ts';

export const claimKind: StorageKind<ClaimFacts, ClaimStepArgs> = {
  word: 'claim',
  observe: observeClaim,
  decide: decideClaim,
  executors: claimExecutors,
  objectOf: ({ claim }) => claim,
  seenOf: ({ claim, volume, users, source, dataProblem }) => ({
    phase: claim?.status?.phase ?? 'gone',
    class: claim?.spec.storageClassName ?? '',
    volume: volume?.metadata.name ?? '',
    pods: users.join(', '),
    source: source.kind,
    data: dataProblem ?? 'there',
  }),
};
