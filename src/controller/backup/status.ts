import {
  type BackupVolume,
  type Condition,
  type ExportBackup,
  findCondition,
  isBackupOver,
  transitionTime,
  type VirtualMachineBackup,
} from '../../api/index.ts';
import type { ObjectEvent } from '../../reconcile/index.ts';
import type { GuestBackup } from './observe.ts';

type Status = NonNullable<VirtualMachineBackup['status']>;

/** Reason of Progressing while a launcher is asked to end it. */
export const aborting = 'Aborting';

/** What is said of it, when the steps went well. */
export interface Said {
  /** Of the condition Progressing. */
  readonly progress?: { readonly reason: string; readonly message: string };
  readonly end?: { readonly type: 'Complete' | 'Failed'; readonly reason: string; readonly message: string };
  readonly type?: Status['type'];
  /** As the VMI has it. */
  readonly guest?: GuestBackup;
  /** The export that the launcher was asked to connect to. */
  readonly exportUID?: string;
  readonly served?: Served;
}

/** Where a pull can be read. */
export interface Served {
  /** PEM, of who signed the certificate of the server. */
  readonly cert: string;
  readonly backups: readonly ExportBackup[];
}

const quiesced: Readonly<Record<string, Pick<Condition, 'status' | 'reason' | 'message'>>> = {
  Succeeded: {
    status: 'True',
    reason: 'QuiesceSucceeded',
    message: 'the file systems of the guest were frozen when the backup began',
  },
  Failed: {
    status: 'False',
    reason: 'QuiesceFailed',
    message: 'the file systems of the guest were not frozen: what it had not written yet is missing',
  },
  Skipped: {
    status: 'False',
    reason: 'QuiesceSkipped',
    message: 'the file systems of the guest were not to be frozen',
  },
};

/** More is refused by the schema of conditions. */
const longestMessage = 8_000;

/** The status as it shall be stored now. Pure. */
export function backupStatusOf({ status: old = {} }: VirtualMachineBackup, said: Said, time: string): Status {
  const { progress, end, guest } = said;
  const type = said.type ?? old.type;
  const checkpoint = guest?.checkpoint ?? old.checkpointName;
  const volumes = volumesOf(said, old);
  const froze = guest?.quiesced === undefined ? undefined : quiesced[guest.quiesced];
  const states: Omit<Condition, 'lastTransitionTime'>[] = [
    ...(progress ? [{ type: 'Progressing', status: 'True' as const, ...progress }] : []),
    ...(froze ? [{ type: 'Quiesced', ...froze }] : []),
    ...(end
      ? [
          { ...end, status: 'True' as const },
          { ...end, type: 'Progressing', status: 'False' as const },
        ]
      : []),
  ];
  const conditions = states.reduce((all, state) => withState(all, state, time), old.conditions ?? []);
  return {
    ...old,
    ...(type !== undefined && { type }),
    ...(checkpoint !== undefined && { checkpointName: checkpoint }),
    ...(volumes !== undefined && { includedVolumes: volumes }),
    ...(said.exportUID !== undefined && { exportUID: said.exportUID }),
    ...(said.served && { endpointCert: said.served.cert }),
    ...(conditions.length > 0 && { conditions }),
  };
}

/** With their endpoints, as long as somebody answers there. */
function volumesOf({ guest, end, served }: Said, { includedVolumes: old }: Status): BackupVolume[] | undefined {
  if (!guest?.volumes.length) return old;
  if (end) return [...guest.volumes];
  return guest.volumes.map((volume) => {
    const known = old?.find(({ volumeName }) => volumeName === volume.volumeName);
    if (!served) return { ...known, ...volume };
    const endpoints = served.backups.find(({ name }) => name === volume.volumeName)?.endpoints ?? [];
    const urls = { data: urlOf(endpoints, 'data'), map: urlOf(endpoints, 'map') };
    return {
      ...volume,
      ...(urls.data !== undefined && { dataEndpoint: urls.data }),
      ...(urls.map !== undefined && { mapEndpoint: urls.map }),
    };
  });
}

function urlOf(endpoints: NonNullable<ExportBackup['endpoints']>, wanted: string): string | undefined {
  return endpoints.find(({ endpoint }) => endpoint === wanted)?.url;
}

/** These conditions are of the newer kind, that has no time of a probe. */
function withState(conditions: readonly Condition[], state: Omit<Condition, 'lastTransitionTime'>, time: string) {
  const old = findCondition(conditions, state.type);
  const message = (state.message ?? '').slice(0, longestMessage);
  if (old?.status === state.status && old.reason === state.reason && old.message === message) return [...conditions];
  const changed = { ...state, message, lastTransitionTime: transitionTime(old, state.status, time) };
  return old ? conditions.with(conditions.indexOf(old), changed) : [...conditions, changed];
}

/** Of what has become of it, for when that is stored. */
export function eventsOf(backup: VirtualMachineBackup, next: Status): ObjectEvent[] {
  const reasonNow = findCondition(next.conditions, 'Progressing')?.reason;
  const message = findCondition(next.conditions, 'Progressing')?.message ?? '';
  if (reasonNow === findCondition(backup.status?.conditions, 'Progressing')?.reason) return [];
  if (reasonNow === aborting) {
    // A pull is ended so, when all is read.
    const type = backup.spec.mode === 'Pull' ? 'Normal' : 'Warning';
    return [{ type, reason: 'VirtualMachineBackupAborting', message }];
  }
  if (!isBackupOver({ status: next })) return [];
  if (reasonNow === 'Completed')
    return [{ type: 'Normal', reason: 'VirtualMachineBackupCompletedSuccessfully', message }];
  if (reasonNow === 'CompletedWithWarning')
    return [{ type: 'Warning', reason: 'VirtualMachineBackupCompletedWithWarning', message }];
  return [{ type: 'Warning', reason: 'VirtualMachineBackupFailed', message }];
}
