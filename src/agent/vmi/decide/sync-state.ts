import type { DomainReason } from '../../../api/index.ts';
import { syncedOf } from '../observe/index.ts';
import type { Facts } from './facts.ts';

/** How far the launcher was given the VMI; pure. */

export const isWaitingForStart = ({ phase, domainState }: Facts) =>
  phase === 'Scheduled' && (domainState.kind === 'gone' || domainState.kind === 'not-started');

/** What the launcher was given last is not what the VMI asks for now. */
export function needsSync({ observation }: Facts): boolean {
  return syncedOf(observation.memory)?.fingerprint !== observation.syncFingerprint;
}

export function sinceSyncMs({ observation }: Facts): number {
  const synced = syncedOf(observation.memory);
  return synced ? observation.nowMs - synced.atMs : Number.POSITIVE_INFINITY;
}

/** The domain was looked at after the last sync. */
export function isSeenSinceSync({ observation }: Facts): boolean {
  const { domain, memory } = observation;
  const synced = syncedOf(memory);
  return domain.kind !== 'absent' && synced !== undefined && domain.seenMs > synced.atMs;
}

/** A guest runs, and its launcher was given the VMI as it is now. */
export const isSynced = (facts: Facts) =>
  facts.phase === 'Running' && facts.domainState.kind === 'alive' && facts.domainState.runs && !needsSync(facts);

/** Not those in which libvirt or a migration is in the middle of something. */
const pausesToEnd: readonly DomainReason[] = ['User', 'Watchdog', 'Unknown', ''];

/**
 * Only the launcher knows who paused its guest: a sync resumes it unless a user did. A guest whose emulator threads are set
 * apart begins like this, and one that its watchdog stopped waits like this.
 */
export const isPausedForNow = ({ domainState }: Facts) =>
  domainState.kind === 'alive' &&
  domainState.domain.Status.Status === 'Paused' &&
  pausesToEnd.includes(domainState.domain.Status.Reason);
