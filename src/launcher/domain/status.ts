import type { DomainReason, DomainStatus } from '../../api/index.ts';

export interface StatusAndReason {
  readonly Status: DomainStatus;
  readonly Reason: DomainReason;
}

/** libvirt's domain states in its own order (`virDomainState`). */
const statuses: readonly DomainStatus[] = [
  'NoState',
  'Running',
  'Blocked',
  'Paused',
  'ShuttingDown',
  'Shutoff',
  'Crashed',
  'PMSuspended',
];

const paused: readonly DomainReason[] = [
  'Unknown',
  'User',
  'Migration',
  'Save',
  'Dump',
  'IOError',
  'Watchdog',
  'FromSnapshot',
  'ShuttingDown',
  'Snapshot',
  'Crashed',
  'StartingUp',
  'Postcopy',
  'PostcopyFailed',
];

const shutoff: readonly DomainReason[] = [
  'Unknown',
  'Shutdown',
  'Destroyed',
  'Crashed',
  'Migrated',
  'Saved',
  'Failed',
  'FromSnapshot',
];

/** Reasons by libvirt's number; a number outside gives ''. States that are not here always say `Unknown`. */
const reasons: Partial<Record<DomainStatus, readonly DomainReason[]>> = {
  Paused: paused,
  ShuttingDown: ['Unknown', 'User'],
  Shutoff: shutoff,
  Crashed: ['Unknown', 'Panicked'],
};

/** What libvirt answers for a domain it does not know. */
export const nonExistent: StatusAndReason = { Status: 'NoState', Reason: 'NonExistent' };

/**
 * Status and Reason of Domain JSON from `virDomainGetState`'s two numbers, as upstream's `util/libvirt_helper.go` converts them.
 */
export function domainStatus(state: number, reason: number): StatusAndReason {
  const Status = statuses[state] ?? 'NoState';
  const table = reasons[Status];
  return { Status, Reason: table === undefined ? 'Unknown' : (table[reason] ?? '') };
}
