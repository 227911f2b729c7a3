import { findCondition, isBackupOver, isFinal, isMigrating, trackedDisksOf } from '../../api/index.ts';
import { memberAt, rfc3339 } from '../../base/index.ts';
import { type Decided, decideBy, longerPause, ruleTable, type Step } from '../../reconcile/index.ts';
import { isAwaited } from '../backup-tracker/index.ts';
import { goneTable } from '../reconciling.ts';
import { type BackupObservation, hasFinalizer, isBegun, type PresentBackup } from './observe.ts';
import { aborting, type Said, type Served } from './status.ts';

export interface BackupStepArgs {
  addFinalizer: object;
  removeFinalizer: object;
  /** Has the claim plugged into the launcher. */
  attachClaim: object;
  detachClaim: object;
  /** No other backup of this guest begins then, and its node tells in the VMI how this one goes. */
  markGuest: object;
  /** Of whichever backup. */
  unmarkGuest: object;
  startBackup: { readonly since: string | undefined };
  /** `discards`: nobody could read it, so that nobody may go on from its checkpoint either. */
  abortBackup: { readonly discards: boolean };
  /** Fails where nobody could read a pull: before it begins. */
  checkAuthorities: object;
  createExport: object;
  deleteExport: object;
  /** The launcher connects to the exporter then. */
  orderExport: { readonly service: string };
  /** The tracker's latest. */
  recordCheckpoint: object;
}

export interface BackupPlan {
  readonly steps: readonly Step<BackupStepArgs>[];
  readonly requeueAfterMs?: number;
  readonly says?: Said;
}

export interface BackupDecision extends Decided, BackupPlan {
  readonly steps: readonly Step<BackupStepArgs>[];
}

type Facts = PresentBackup;

/** What it waits for wakes it: this is for a change that nobody tells of. */
const pauses = { firstMs: 5_000, longestMs: 60_000 };
const inProgress = { reason: 'Initiated', message: 'the disks of the guest are being copied' };

const preparing = { reason: 'PreparingExport', message: 'an exporter is made, which the backup is read from' };

const isPull = ({ backup }: Facts) => backup.spec.mode === 'Pull';
const isLate = (facts: Facts) => isPull(facts) && leftMs(facts) === 0;
const leftMs = ({ expiresAt, now }: Facts) => Math.max(0, expiresAt.getTime() - now.getTime());
/** What a launcher ended on order is whole in its eyes, also where no exporter ever served it. Endpoints stay in the status until the end is told. */
const wasReadable = (facts: Facts) =>
  !isPull(facts) || facts.backup.status?.includedVolumes?.some(({ dataEndpoint }) => dataEndpoint) === true;
const isTold = ({ backup, vmExport }: Facts) => backup.status?.exportUID === vmExport?.metadata.uid;
const isOver = ({ backup }: Facts) => isBackupOver(backup);
const isDeleted = ({ backup }: Facts) => backup.metadata.deletionTimestamp !== undefined;
const isKept = ({ backup }: Facts) => hasFinalizer(backup);
const hasGuest = ({ vmi }: Facts) => vmi !== undefined && !isFinal(vmi);
const isPlugged = (facts: Facts) => hasGuest(facts) && ['asked', 'there'].includes(facts.attachment);
const isLetGo = (facts: Facts) => !hasGuest(facts) || facts.attachment === 'none';
const atVm = ({ backup, vmName }: Facts) => `VM ${backup.metadata.namespace}/${vmName}`;
const latestOf = ({ tracker }: Facts) => tracker?.status?.latestCheckpoint?.name || undefined;
const claimText = ({ backup }: Facts) => `claim ${backup.metadata.namespace}/${backup.spec.pvcName}`;

const detach = (facts: Facts) => (isPlugged(facts) ? [{ step: 'detachClaim' } as const] : []);
/** Whoever reads is cut off: there is nothing left to be read. */
const close = ({ vmExport }: Facts) => (vmExport ? [{ step: 'deleteExport' } as const] : []);
const since = (facts: Facts) => (facts.backup.spec.forceFullBackup ? undefined : latestOf(facts));

function starting(facts: Facts): BackupPlan {
  const base = since(facts);
  return {
    steps: [{ step: 'startBackup', since: base }],
    says: { progress: inProgress, type: base === undefined ? 'Full' : 'Incremental' },
  };
}

function waits(facts: Facts, rule: string, message: string): BackupPlan {
  return {
    steps: [],
    says: { progress: { reason: 'Initializing', message } },
    requeueAfterMs: longerPause(facts, rule, pauses),
  };
}

function failed(reason: string, message: string): Said {
  return { end: { type: 'Failed', reason, message: `Backup has failed: ${message}` } };
}

/** It can never be made. */
function problemOf({ backup: { spec } }: Facts): string | undefined {
  const { source, mode = 'Push', pvcName, tokenSecretRef } = spec;
  if (!source?.name) return 'spec.source names nothing';
  if (!['VirtualMachine', 'VirtualMachineBackupTracker'].includes(source.kind))
    return `spec.source.kind ${JSON.stringify(source.kind)}: a backup is of a VirtualMachine, or by a VirtualMachineBackupTracker`;
  if (mode !== 'Push' && mode !== 'Pull') return `spec.mode ${JSON.stringify(mode)} is none of Push, Pull`;
  if (!pvcName) return 'spec.pvcName names no claim';
  if (mode === 'Pull' && !tokenSecretRef)
    return 'spec.tokenSecretRef names no secret: who reads a backup in mode Pull shows the token that its key `token` has';
  return undefined;
}

/** The claim cannot hold a backup, whatever is awaited. */
function claimProblem(facts: Facts): string | undefined {
  const { claim, vmi, backup } = facts;
  if (claim?.spec.volumeMode === 'Block')
    return `${claimText(facts)} is a block device: files of a backup need volumeMode Filesystem`;
  const holds = (volume: object) =>
    [memberAt(volume, 'persistentVolumeClaim', 'claimName'), memberAt(volume, 'dataVolume', 'name')].includes(
      backup.spec.pvcName,
    );
  const disk = (vmi?.spec?.volumes ?? []).find(holds);
  return disk && `${claimText(facts)} holds disk ${disk.name} of the VM itself: use another claim`;
}

function endOf(facts: Facts): Said {
  const { own, backup } = facts;
  if (own?.hasFailed) return failed('Failed', own.message ?? 'its launcher gives no reason');
  if (!wasReadable(facts)) {
    const advice = `see that the secret ${backup.spec.tokenSecretRef} is there and that exporter pods run, and make another one`;
    return failed('Failed', `it ended before its exporter served it, so that nobody could read it: ${advice}`);
  }
  const isWarned = own?.message !== undefined;
  const reason = isWarned ? 'CompletedWithWarning' : 'Completed';
  const message = isWarned ? `the backup is whole; ${own.message}` : 'the backup is whole';
  return { end: { type: 'Complete', reason, message } };
}

const presentTable = ruleTable<Facts, BackupPlan>(
  [
    {
      name: 'over-left',
      why: 'The backup is over: nobody reads it any more, its claim is unplugged, and the guest is free for another one.',
      when: (facts) =>
        isOver(facts) &&
        (facts.vmExport !== undefined || isPlugged(facts) || (hasGuest(facts) && facts.own !== undefined)),
      plan: (facts) => {
        const isMarked = hasGuest(facts) && facts.own !== undefined;
        return { steps: [...close(facts), ...detach(facts), ...(isMarked ? [{ step: 'unmarkGuest' } as const] : [])] };
      },
    },
    {
      name: 'over-kept',
      why: 'The backup is over and its guest is let go, or it is being deleted: nothing keeps it any more.',
      when: (facts) => isOver(facts) && isKept(facts) && (isDeleted(facts) || isLetGo(facts)),
      plan: () => ({ steps: [{ step: 'removeFinalizer' }] }),
    },
    {
      name: 'over',
      why: 'The backup has succeeded or failed; for another one make another object.',
      when: isOver,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'deleted-before',
      why: 'The backup is being deleted, and nothing was begun for it.',
      when: (facts) => isDeleted(facts) && !isKept(facts) && !facts.own,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'done-plugged',
      why: 'The launcher has ended the backup: its exporter goes, and its claim is unplugged, before anybody is told.',
      when: (facts) => facts.own?.isOver === true && (facts.vmExport !== undefined || !isLetGo(facts)),
      plan: (facts) => ({ steps: [...recorded(facts), ...close(facts), ...detach(facts)], says: said(facts, {}) }),
    },
    {
      name: 'done',
      why: 'The launcher has ended the backup, and its claim is free.',
      when: ({ own }) => own?.isOver === true,
      plan: (facts) => {
        const type = facts.backup.status?.type ?? (since(facts) === undefined ? 'Full' : 'Incremental');
        return { steps: recorded(facts), says: said(facts, { ...endOf(facts), type }), requeueAfterMs: 0 };
      },
    },
    {
      name: 'guest-ended',
      why: 'The guest ended while its disks were being copied.',
      when: ({ own, vmi }) => own !== undefined && vmi !== undefined && isFinal(vmi),
      plan: (facts) => {
        const message = `the guest of ${atVm(facts)} ended (${facts.vmi?.status?.phase}) before the backup was whole: make another one when it runs`;
        return { steps: [], says: said(facts, failed('SourceUnhealthy', message)) };
      },
    },
    {
      name: 'deleted-under-way',
      why: 'The backup is being deleted: the launcher is asked to end it.',
      when: (facts) => facts.own !== undefined && isDeleted(facts),
      plan: (facts) => ({
        steps: [{ step: 'abortBackup', discards: !wasReadable(facts) }],
        says: said(facts, {
          progress: { reason: aborting, message: 'the backup is being deleted: its launcher ends it' },
        }),
        requeueAfterMs: longerPause(facts, 'deleted-under-way', pauses),
      }),
    },
    {
      name: 'pull-expired',
      why: 'The time that the backup could be read for is over: the launcher is asked to end it.',
      when: (facts) => facts.own !== undefined && isLate(facts),
      plan: (facts) => ({
        steps: [{ step: 'abortBackup', discards: !wasReadable(facts) }],
        says: said(facts, {
          progress: {
            reason: aborting,
            message: `the time that it could be read for (spec.ttlDuration: ${facts.backup.spec.ttlDuration ?? '2h'}) is over: its launcher ends it`,
          },
        }),
        requeueAfterMs: longerPause(facts, 'pull-expired', pauses),
      }),
    },
    {
      name: 'guest-marked',
      why: 'The guest is marked for this backup: its launcher is asked to begin, or whether it has.',
      when: ({ own, backup }) => own !== undefined && backup.status?.type === undefined,
      plan: starting,
    },
    {
      name: 'export-foreign',
      why: 'A VirtualMachineExport of the name that this backup needs belongs to another.',
      when: (facts) => facts.own !== undefined && isPull(facts) && facts.foreignExport !== undefined,
      plan: (facts) => reading(facts, { ...preparing, message: foreignText(facts) }),
    },
    {
      name: 'export-missing',
      why: 'The launcher serves the backup within its pod: an exporter is made, where clients read it.',
      when: (facts) => facts.own !== undefined && isPull(facts) && facts.vmExport === undefined,
      plan: (facts) => ({ ...reading(facts, preparing), steps: [{ step: 'createExport' }] }),
    },
    {
      name: 'export-unserved',
      why: 'The exporter has no Service yet that the launcher could connect to.',
      when: (facts) => facts.own !== undefined && isPull(facts) && !isTold(facts) && !serviceOf(facts),
      plan: (facts) => reading(facts, preparing),
    },
    {
      name: 'export-untold',
      why: 'The exporter has its Service: the launcher is asked to connect to it, and serves the backup over that connection.',
      when: (facts) => facts.own !== undefined && isPull(facts) && !isTold(facts),
      plan: (facts) => {
        const { steps: _none, ...plan } = reading(facts, exportPending(facts));
        const exportUID = facts.vmExport?.metadata.uid;
        return {
          ...plan,
          steps: [{ step: 'orderExport', service: serviceOf(facts) ?? '' }],
          says: { ...plan.says, ...(exportUID !== undefined && { exportUID }) },
        };
      },
    },
    {
      name: 'export-pending',
      why: 'The launcher connects to the exporter, which does not serve yet.',
      when: (facts) => facts.own !== undefined && isPull(facts) && !linksOf(facts),
      plan: (facts) => reading(facts, exportPending(facts)),
    },
    {
      name: 'export-ready',
      why: 'Clients read the backup, with the token, until it is deleted or its time is over.',
      when: (facts) => facts.own !== undefined && isPull(facts),
      plan: (facts) => {
        const served = linksOf(facts);
        const until = rfc3339(facts.expiresAt);
        const message = `the backup can be read at the endpoints of status.includedVolumes until ${until}: delete it when all is read`;
        const plan = reading(facts, { reason: 'ExportReady', message });
        return { ...plan, says: { ...plan.says, ...(served && { served }) } };
      },
    },
    {
      name: 'under-way',
      why: 'The launcher is copying the disks; its node says in the VMI how it goes.',
      when: ({ own }) => own !== undefined,
      plan: (facts) => ({ steps: [], says: said(facts, { progress: inProgress }) }),
    },
    {
      name: 'lost',
      why: 'The backup had begun, and the guest that it was of, or the word of it, is no more.',
      when: ({ backup }) => backup.status?.type !== undefined,
      plan: (facts) => {
        const what = facts.vmi ? 'the VMI says nothing of it any more' : `${atVm(facts)} has no guest any more`;
        return {
          steps: [],
          says: failed('SourceLost', `it had begun, and ${what}: make another one`),
          requeueAfterMs: 0,
        };
      },
    },
    {
      name: 'deleted-early',
      why: 'The backup is being deleted before its launcher was asked for it.',
      when: isDeleted,
      plan: () => ({
        steps: [],
        says: failed('DeletedDuringInit', 'it was deleted before it had begun'),
        requeueAfterMs: 0,
      }),
    },
    {
      name: 'refused',
      why: 'The backup asks for something that is not made here.',
      when: (facts) => problemOf(facts) !== undefined,
      plan: (facts) => ({ steps: [], says: failed('Failed', problemOf(facts) ?? '') }),
    },
    {
      name: 'expired-early',
      why: 'The time that the backup could be read for was over before it could begin.',
      when: isLate,
      plan: (facts) => {
        const ttl = facts.backup.spec.ttlDuration ?? '2h';
        const message = `its time (spec.ttlDuration: ${ttl}) was over before it could begin: make another one`;
        return { steps: [], says: failed('Failed', message) };
      },
    },
    {
      name: 'tracker-missing',
      why: 'The tracker does not exist; it may come.',
      when: ({ isByTracker, tracker }) => isByTracker && tracker === undefined,
      plan: (facts) => {
        const { metadata, spec } = facts.backup;
        return waits(
          facts,
          'tracker-missing',
          `BackupTracker ${metadata.namespace}/${spec.source.name} does not exist`,
        );
      },
    },
    {
      name: 'vm-missing',
      why: 'The VM does not exist; it may come.',
      when: ({ vm }) => vm === undefined,
      plan: (facts) => waits(facts, 'vm-missing', `${atVm(facts)} does not exist`),
    },
    {
      name: 'not-running',
      why: 'Only disks of a guest that runs are backed up.',
      when: ({ vmi }) => vmi?.status?.phase !== 'Running' || vmi.metadata.deletionTimestamp !== undefined,
      plan: (facts) => waits(facts, 'not-running', `${atVm(facts)} is not running: start it`),
    },
    {
      name: 'no-disks',
      why: 'No disk of the guest is on a volume that can be backed up.',
      when: ({ vmi }) => vmi !== undefined && trackedDisksOf(vmi).length === 0,
      plan: (facts) =>
        waits(facts, 'no-disks', `${atVm(facts)} has no disk to back up: one on a claim, a DataVolume or a hostDisk`),
    },
    {
      name: 'not-tracked',
      why: 'The blocks that the guest changes are not recorded.',
      when: ({ vmi }) => memberAt(vmi?.status, 'changedBlockTracking', 'state') !== 'Enabled',
      plan: (facts) => {
        const state = memberAt(facts.vmi?.status, 'changedBlockTracking', 'state') ?? 'off';
        const advice = 'let it match changedBlockTrackingLabelSelectors of the KubeVirt object, and restart it';
        return waits(facts, 'not-tracked', `${atVm(facts)} has no ChangedBlockTracking (${state}): ${advice}`);
      },
    },
    {
      name: 'other-lost',
      why: 'The guest is marked for a backup that is over and no longer exists: the mark is taken off.',
      when: ({ other }) => other?.isLost === true && other.isOver,
      plan: () => ({ steps: [{ step: 'unmarkGuest' }], requeueAfterMs: 0 }),
    },
    {
      name: 'other-under-way',
      why: 'Another backup of this guest is under way.',
      when: ({ other }) => other !== undefined,
      plan: (facts) =>
        waits(
          facts,
          'other-under-way',
          `backup ${facts.other?.name} of ${atVm(facts)} is under way: this one begins after it`,
        ),
    },
    {
      name: 'migrating',
      why: 'The guest is moving to another node.',
      when: ({ vmi }) => vmi !== undefined && isMigrating(vmi),
      plan: (facts) => waits(facts, 'migrating', `${atVm(facts)} is migrating: the backup begins after it`),
    },
    {
      name: 'checkpoint-untold',
      why: 'The guest was started since the tracker’s checkpoint, and its launcher is not told of it yet.',
      when: (facts) => since(facts) !== undefined && facts.tracker !== undefined && isAwaited(facts.tracker),
      plan: (facts) => {
        const { metadata } = facts.tracker ?? facts.backup;
        const message = `Waiting for checkpoint redefinition on tracker ${metadata.name}: the guest was started since checkpoint ${latestOf(facts)}, and its launcher is told of it`;
        return waits(facts, 'checkpoint-untold', message);
      },
    },
    {
      name: 'export-occupied',
      why: 'A VirtualMachineExport has the name that an export of this backup needs.',
      when: (facts) => isPull(facts) && facts.foreignExport !== undefined,
      plan: (facts) => waits(facts, 'export-occupied', foreignText(facts)),
    },
    {
      name: 'claim-missing',
      why: 'The claim that the backup is written to does not exist; it may come.',
      when: ({ claim }) => claim === undefined || claim.metadata.deletionTimestamp !== undefined,
      plan: (facts) => waits(facts, 'claim-missing', `${claimText(facts)} does not exist, or is being deleted`),
    },
    {
      name: 'claim-unfit',
      why: 'The claim cannot hold a backup.',
      when: (facts) => claimProblem(facts) !== undefined,
      plan: (facts) => ({ steps: [], says: failed('Failed', claimProblem(facts) ?? '') }),
    },
    {
      name: 'claim-unplugged',
      why: 'The claim is plugged into the launcher.',
      when: ({ attachment }) => attachment === 'none',
      plan: (facts) => ({
        steps: [{ step: 'addFinalizer' }, { step: 'attachClaim' }],
        ...waiting(facts, `${claimText(facts)} is being plugged in`),
      }),
    },
    {
      name: 'claim-coming',
      why: 'The claim is on its way into the launcher.',
      when: ({ attachment }) => attachment !== 'there',
      plan: (facts) => {
        const entry = facts.vmi?.status?.volumeStatus?.find(({ name }) => name === facts.volumeName);
        const how = [entry?.phase, entry?.message].filter(Boolean).join(': ');
        return waits(facts, 'claim-coming', `${claimText(facts)} is being plugged in${how && ` (${how})`}`);
      },
    },
  ],
  {
    name: 'ready',
    why: 'All is there: the guest is marked, and its launcher is asked to begin.',
    plan: (facts) => {
      const { steps, ...more } = starting(facts);
      const checked = isPull(facts) ? [{ step: 'checkAuthorities' } as const] : [];
      return { ...more, steps: [{ step: 'addFinalizer' }, ...checked, { step: 'markGuest' }, ...steps] };
    },
  },
);

function waiting(facts: Facts, message: string): Pick<BackupPlan, 'says' | 'requeueAfterMs'> {
  const { says, requeueAfterMs } = waits(facts, 'claim-unplugged', message);
  return { says: says ?? {}, requeueAfterMs: requeueAfterMs ?? pauses.firstMs };
}

/** How a pull goes on that has begun. */
function reading(facts: Facts, progress: { readonly reason: string; readonly message: string }): BackupPlan {
  return { steps: [], says: said(facts, { progress }), requeueAfterMs: Math.min(leftMs(facts), pauses.longestMs) };
}

const serviceOf = ({ vmExport }: Facts) => vmExport?.status?.serviceName || undefined;

function exportPending({ vmExport }: Facts) {
  const state = findCondition(vmExport?.status?.conditions, 'Ready');
  const why = [state?.reason, state?.message].filter(Boolean).join(': ');
  const message = `the launcher connects to the exporter, which does not serve yet${why && ` (${why})`}`;
  return { reason: 'ExportInitiated', message };
}

function foreignText({ foreignExport }: Facts): string {
  return `VirtualMachineExport ${foreignExport} exists and is not this backup’s, which needs the name: delete it, or name the backup otherwise`;
}

/** Where clients read what, from outside of the cluster where they can; undefined: nowhere yet. */
function linksOf({ vmExport, own }: Facts): Served | undefined {
  const { phase, links } = vmExport?.status ?? {};
  const link = [links?.external, links?.internal].find((each) => each?.backups?.length);
  if (phase !== 'Ready' || !link || !own?.volumes.length) return undefined;
  return { cert: link.cert, backups: link.backups ?? [] };
}

/** With all that the VMI says. */
function said({ own }: Facts, more: Said): Said {
  return own ? { ...more, guest: own } : more;
}

function recorded(facts: Facts): Step<BackupStepArgs>[] {
  const { own, tracker } = facts;
  const isNew = own !== undefined && isBegun(own) && own.checkpoint !== undefined && own.checkpoint !== latestOf(facts);
  return tracker && isNew && !own.hasFailed && wasReadable(facts) ? [{ step: 'recordCheckpoint' }] : [];
}

const absentTable = goneTable<BackupObservation, BackupPlan>({ object: 'backup', plan: (nothing) => nothing });

export const backupRules = [...presentTable.rules, ...absentTable.rules];

/** Pure and total. */
export function decideBackup(observation: BackupObservation): BackupDecision {
  return observation.kind === 'present' ? decideBy(presentTable, observation) : decideBy(absentTable, observation);
}
