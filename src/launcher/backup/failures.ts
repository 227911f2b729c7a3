import { formatLibvirtError, isLibvirtError, type LibvirtError } from '../../libvirt/index.ts';
import { LauncherError } from '../errors.ts';
import type { BackupMode } from './orders.ts';

export const forceFull = 'ask for a full backup (spec.forceFullBackup: true)';

export function checkpointFailure(name: string, error: unknown): unknown {
  const isUseless = isLibvirtError(
    error,
    'INVALID_DOMAIN_CHECKPOINT',
    'NO_DOMAIN_CHECKPOINT',
    'CHECKPOINT_INCONSISTENT',
  );
  if (!isUseless) return error;
  const text = `checkpoint ${name} is broken (${formatLibvirtError(error)}): ${forceFull}`;
  return new LauncherError('CHECKPOINT_INVALID', text, { cause: error });
}

/** What libvirt says when it does not even begin. */
export function startFailure(error: LibvirtError, mode: BackupMode): LauncherError {
  const text = `the backup does not begin: ${failureReason(formatLibvirtError(error), mode)}`;
  const isCheckpoint = isLibvirtError(error, 'NO_DOMAIN_CHECKPOINT', 'CHECKPOINT_INCONSISTENT');
  const code = isCheckpoint ? 'CHECKPOINT_INVALID' : 'INVALID_REQUEST';
  return new LauncherError(code, isCheckpoint ? `${text}: ${forceFull}` : text, { cause: error });
}

const room: Readonly<Record<BackupMode, string>> = {
  Push: 'a full backup needs room for whole disks',
  Pull: 'a pull needs room for all that the guest overwrites until it ends',
};

export function tooSmall(mode: BackupMode): string {
  return `the claim is too small: ${room[mode]}; make it larger, or use another one`;
}

/** Why, with what to do. */
export function failureReason(text: string, mode: BackupMode): string {
  if (/No space left on device|ENOSPC/i.test(text)) return tooSmall(mode);
  if (/socket/i.test(text)) return `QEMU cannot listen for those who read the backup: ${text}`;
  if (/Permission denied|Read-only file system|EACCES|EROFS/i.test(text))
    return `QEMU may not write to the claim: ${text}`;
  return text === '' ? 'libvirt gives no reason: look into the log of the launcher' : text;
}
