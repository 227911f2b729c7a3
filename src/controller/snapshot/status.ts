import {
  contentNameOf,
  isReadyToUse,
  isTaken,
  type SnapshotIndication,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
} from '../../api/index.ts';
import { rfc3339 } from '../../base/index.ts';
import type { ObjectEvent } from '../../reconcile/index.ts';
import {
  freezeLimit,
  type GuestFacts,
  type SaidConditions,
  volumesOfContent,
  withSaid,
} from '../snapshot-source/index.ts';
import type { PresentSnapshot } from './observation.ts';

type Status = NonNullable<VirtualMachineSnapshot['status']>;

/** Upstream's (snapshotIndicationMessages in pkg/storage/snapshot/snapshot.go). */
const indicationMessages: Readonly<Record<SnapshotIndication, string>> = {
  Online: 'Snapshot taken while the VM was running. Consistency depends on guest-agent quiescing.',
  GuestAgent: 'Guest agent was active and attempted to quiesce the filesystem for application consistency.',
  NoGuestAgent: 'Guest agent was not available. Snapshot is crash-consistent and may not be application-consistent.',
  QuiesceTimeout:
    'Guest agent quiesced the filesystem, but the freeze window timed out before completion. Snapshot is crash-consistent and may not be application-consistent.',
  Paused: 'Snapshot taken while the VM was paused. Snapshot is crash-consistent and may not be application-consistent.',
  PartialSnapshot:
    'Not all snapshotable volumes were included in the snapshot. Check status.snapshotVolumes for excluded volumes and VM VolumeSnapshotStatus for details.',
};

/** The status as it shall be stored now. `failure`: of a step, in words. Pure. */
export function statusOf(seen: PresentSnapshot, failure: string | undefined): Status {
  const { snapshot, content, source, now } = seen;
  const old = snapshot.status ?? {};
  const error = content?.status ? content.status.error : old.error;
  const said = failure === undefined ? error : { message: failure, time: timeOf(old, failure, now) };
  const base: Status = {
    ...withoutError(old),
    readyToUse: old.readyToUse ?? false,
    ...(source && { sourceUID: source.vm.metadata.uid ?? '' }),
    ...(content?.status && ofContent(content)),
    ...(said && { error: said }),
  };
  const ended = endOf(seen);
  const status = { ...base, ...ended.status, ...lostError(seen) };
  const isReady = status.readyToUse === true;
  const conditions: SaidConditions = {
    progressing: status.error && ended.isOpen ? ['False', 'In error state'] : ended.progressing,
    ready: isReady ? ['True', 'Ready'] : ['False', 'Not ready'],
    failure: ended.failure,
  };
  return { ...status, conditions: withSaid(old.conditions, conditions, rfc3339(now)) };
}

function withoutError({ error: _error, ...rest }: Status): Status {
  return rest;
}

function timeOf({ error }: Status, message: string, now: Date): string {
  return error?.message === message && error.time ? error.time : rfc3339(now);
}

function ofContent({ metadata, status }: VirtualMachineSnapshotContent): Partial<Status> {
  return {
    virtualMachineSnapshotContentName: metadata.name,
    readyToUse: status?.readyToUse === true,
    ...(status?.creationTime && { creationTime: status.creationTime }),
  };
}

/** Of a content that was complete. */
function lostError({ snapshot, content, now }: PresentSnapshot): Partial<Status> {
  if (content || snapshot.status?.phase !== 'Succeeded') return {};
  const message = `VirtualMachineSnapshotContent ${contentNameOf(snapshot)} no longer exists`;
  return { error: { message, time: timeOf(snapshot.status, message, now) } };
}

interface End {
  readonly status: Partial<Status>;
  readonly progressing: readonly ['True' | 'False', string];
  readonly failure?: string;
  /** It may go on. */
  readonly isOpen?: true;
}

function endOf(seen: PresentSnapshot): End {
  const { snapshot, content, source, problem, leftMs } = seen;
  const { phase } = snapshot.status ?? {};
  const isLate = leftMs !== undefined && leftMs < 0;
  if (phase === 'Succeeded' || (phase !== 'Failed' && content && isTaken(content))) {
    return { status: succeeded(snapshot, content), progressing: ['False', 'Operation complete'] };
  }
  if (phase === 'Failed' || problem !== undefined || isLate) {
    const why = problem ?? 'snapshot deadline exceeded';
    const failure = phase === 'Failed' ? {} : { failure: why };
    return { status: { phase: 'Failed', readyToUse: false }, progressing: ['False', 'Operation failed'], ...failure };
  }
  const indications = source ? indicationsOf(snapshot, content, source.guest) : {};
  if (snapshot.metadata.deletionTimestamp) {
    return { status: { phase: 'Deleting', ...indications }, progressing: ['False', 'VM snapshot is deleting'] };
  }
  return { status: { phase: 'InProgress', ...indications }, progressing: progressOf(seen), isOpen: true };
}

function progressOf({ source }: PresentSnapshot): End['progressing'] {
  if (!source) return ['False', 'Source does not exist'];
  if (source.isLocked) return ['True', 'Source locked and operation in progress'];
  return ['False', source.problem === undefined ? 'Source not locked' : `Source not locked ${source.problem}`];
}

type Indications = Pick<Status, 'indications' | 'sourceIndications'>;

/** What has been true once stays true of the snapshot. */
function indicationsOf(
  { status }: VirtualMachineSnapshot,
  content: VirtualMachineSnapshotContent | undefined,
  { isOnline, isPaused, hasAgent }: GuestFacts,
): Indications {
  const known = Array.isArray(status?.indications) ? status.indications : [];
  const wasCut = content?.status?.error?.message?.includes(freezeLimit) === true;
  const quiesced: SnapshotIndication[] = hasAgent
    ? ['GuestAgent', ...(wasCut ? (['QuiesceTimeout'] as const) : [])]
    : ['NoGuestAgent'];
  const now: SnapshotIndication[] = isOnline ? ['Online', ...(isPaused ? (['Paused'] as const) : quiesced)] : [];
  return listed([...known, ...now]);
}

function listed(indications: readonly SnapshotIndication[]): Indications {
  const all = [...new Set(indications)].sort();
  if (all.length === 0) return {};
  const sourceIndications = all.map((indication) => ({ indication, message: indicationMessages[indication] ?? '' }));
  return { indications: all, sourceIndications };
}

function succeeded(
  snapshot: VirtualMachineSnapshot,
  content: VirtualMachineSnapshotContent | undefined,
): Partial<Status> {
  const vm = content?.spec.source.virtualMachine;
  if (!content || !vm) return { phase: 'Succeeded', readyToUse: content ? isReadyToUse(content) : false };
  const kept = new Set((content.spec.volumeBackups ?? []).map(({ volumeName }) => volumeName));
  const volumes = volumesOfContent(content);
  const included = volumes.filter(({ name }) => kept.has(name));
  const excluded = volumes.filter(({ name }) => !kept.has(name));
  const known = Array.isArray(snapshot.status?.indications) ? snapshot.status.indications : [];
  const isPartial = excluded.some(({ claimName }) => claimName !== undefined);
  return {
    phase: 'Succeeded',
    snapshotVolumes: {
      ...(included.length > 0 && { includedVolumes: included.map(({ name }) => name) }),
      ...(excluded.length > 0 && { excludedVolumes: excluded.map(({ name }) => name) }),
    },
    ...(isPartial && listed([...known, 'PartialSnapshot'])),
  };
}

/** Of the change from one status to the next. */
export function eventsOf({ status: old }: VirtualMachineSnapshot, status: Status): ObjectEvent[] {
  if (old?.phase === status.phase || status.phase !== 'Failed') return [];
  const failure = status.conditions?.find(({ type }) => type === 'Failure');
  const because = status.error?.message ? `: ${status.error.message}` : '';
  const message = `VirtualMachineSnapshot failed: ${failure?.reason ?? ''}${because}`;
  return [{ type: 'Warning', reason: 'VirtualMachineSnapshotFailed', message }];
}
