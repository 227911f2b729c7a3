import { keyOf, type PersistentVolumeClaim } from '../../api/index.ts';
import { claimFacts } from './claim-facts.ts';
import { decideClaim } from './claim-rules.ts';
import type { ClaimDeps } from './loop.ts';

/** What a claim without a volume waits for: nothing (it will have one soon), or a pod that asks for it; what it is to begin with; that it is another one; or something that a user can change. */
export type Awaited =
  | { readonly kind: 'nothing' | 'consumer' }
  | { readonly kind: 'source'; readonly isInUse: boolean; readonly why: string }
  | { readonly kind: 'refused' | 'change'; readonly why: string };

/** As the rules of claims see it, with the words of their events. */
export async function awaitedBy(claim: PersistentVolumeClaim, deps: ClaimDeps): Promise<Awaited> {
  const facts = await claimFacts(claim, keyOf(claim), deps);
  const { rule, events = [] } = decideClaim(facts);
  const { source } = facts;
  const why = events[0]?.message ?? '';
  if (rule === 'consumer-awaited') return { kind: 'consumer' };
  if (rule === 'source-awaited') {
    return { kind: 'source', isInUse: source.kind === 'waits' && source.isInUse === true, why };
  }
  if (source.kind === 'wrong' && ['claim-refused', 'source-besides-volume'].includes(rule))
    return { kind: 'refused', why };
  return why === '' ? { kind: 'nothing' } : { kind: 'change', why };
}
