import { X509Certificate } from 'node:crypto';
import path from 'node:path';
import { createSecureContext } from 'node:tls';
import { isRecord, textAt } from '../../base/index.ts';
import { LauncherError } from '../errors.ts';

/** Push: QEMU writes whole files. Pull: it answers readers on a socket until it is told to end. */
export type BackupMode = 'Push' | 'Pull';

/** What is asked of a backup (upstream: `BackupOptions` of kubevirt.io/api/backup/v1alpha1). */
export type BackupOrder =
  | (NamedBackup & {
      readonly command: 'Start';
      readonly mode: BackupMode;
      /** Where files are written; of a pull those with what the guest overwrites meanwhile. */
      readonly targetPath: string;
      readonly skipQuiesce: boolean;
      /** The checkpoint since which changes are wanted; undefined: everything. */
      readonly since: string | undefined;
    })
  | (NamedBackup & {
      readonly command: 'Abort';
      /** Nobody could read it, as virt-controller knows: it has failed. No field of upstream's. */
      readonly isUnread: boolean;
    })
  | (NamedBackup & { readonly command: 'Export'; readonly to: ExportTarget });

/** Where the exporter of a pull waits, who it has to be, and who comes; certificates and key are PEM. */
export interface ExportTarget {
  readonly address: string;
  readonly serverName: string;
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/** Both together tell one backup from another. */
export interface NamedBackup {
  readonly name: string;
  /** RFC 3339, as it was given. */
  readonly startTime: string;
}

export interface Checkpoint {
  readonly name: string;
  readonly createdAt: Date | undefined;
}

/** Names of backups and checkpoints become names of files and of bitmaps. */
const plainName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,500}$/;

/** A host as DNS has it, or an address, and a port. */
const plainAddress = /^[A-Za-z0-9.-]{1,253}(:\d{1,5})?$/;

/** Throws INVALID_REQUEST. */
export function decodeOrder(json: Uint8Array): BackupOrder {
  const options = jsonObject(json, 'backup options');
  const command = textAt(options, 'cmd');
  const named = { name: nameAt(options, 'backupName'), startTime: timeAt(options, 'backupStartTime') };
  if (command === 'Abort') return { ...named, command, isUnread: options.discardCheckpoint === true };
  if (command === 'Export') return { ...named, command, to: targetIn(options) };
  if (command !== 'Start') throw invalid(`cmd ${JSON.stringify(command)} is none of Start, Abort, Export`);
  const mode = textAt(options, 'mode');
  if (mode !== 'Push' && mode !== 'Pull') throw invalid(`mode ${JSON.stringify(mode)} is none of Push, Pull`);
  const targetPath = textAt(options, 'targetPath');
  if (targetPath === undefined) throw invalid('targetPath is missing: it is where the claim is plugged in');
  const since = textAt(options, 'incremental');
  if (since !== undefined && !plainName.test(since)) throw invalid(`incremental ${JSON.stringify(since)} is no name`);
  return { ...named, command, mode, targetPath, skipQuiesce: options.skipQuiesce === true, since };
}

function targetIn(options: Record<string, unknown>): ExportTarget {
  if (textAt(options, 'mode') !== 'Pull') throw invalid('only a backup in mode Pull is brought to an exporter');
  const needed = (field: string) => {
    const value = textAt(options, field);
    if (value) return value;
    throw invalid(`${field} is missing`);
  };
  const [address, serverName] = ['exportServerAddr', 'exportServerName'].map((field) => {
    const value = needed(field);
    if (plainAddress.test(value)) return value;
    throw invalid(`${field} ${JSON.stringify(value.slice(0, 100))} is no host`);
  });
  const [ca, cert, key] = ['caCert', 'backupCert', 'backupKey'].map(needed);
  const target = { address, serverName, ca, cert, key } as ExportTarget;
  try {
    createSecureContext(target);
    // Of authorities it takes anything.
    new X509Certificate(target.ca);
  } catch (cause) {
    // The system's words may quote the key.
    throw new LauncherError(
      'INVALID_REQUEST',
      'backupCert, backupKey and caCert are no key pair and authority in PEM',
      {
        cause,
      },
    );
  }
  return target;
}

/** Throws INVALID_REQUEST. */
export function decodeCheckpoint(json: Uint8Array): Checkpoint {
  const checkpoint = jsonObject(json, 'checkpoint');
  const time = textAt(checkpoint, 'creationTime');
  const createdAt = time === undefined || Number.isNaN(Date.parse(time)) ? undefined : new Date(time);
  return { name: nameAt(checkpoint, 'name'), createdAt };
}

/** Upstream's form of a time in names of checkpoints and directories. */
export function nameWithTime({ name, startTime }: NamedBackup): string {
  const text = new Date(startTime).toISOString();
  return `${name}-${text.slice(0, 10)}_${text.slice(11, 19).replaceAll(':', '-')}`;
}

export function isSameBackup(left: NamedBackup, right: { readonly Name?: unknown; readonly StartTimestamp?: unknown }) {
  return left.name === right.Name && Date.parse(left.startTime) === Date.parse(String(right.StartTimestamp));
}

/**
 * The directory of one backup in that of a volume that was plugged in, from the top down. Throws INVALID_REQUEST for every other place:
 * the launcher may be root in its pod.
 */
export function backupDirectories(
  order: NamedBackup & { readonly targetPath: string },
  hotplugDir: string,
  vmiName: string,
): readonly [volume: string, vmi: string, backup: string] {
  const { targetPath } = order;
  const volume = path.relative(hotplugDir, targetPath);
  if (path.normalize(targetPath) !== targetPath || volume === '' || volume.startsWith('.') || volume.includes('/')) {
    const place = path.join(hotplugDir, '<volume>');
    throw invalid(`${JSON.stringify(targetPath)} is no place for a backup: it must be ${place}`);
  }
  const vmi = path.join(targetPath, vmiName);
  return [targetPath, vmi, path.join(vmi, nameWithTime(order))];
}

function jsonObject(json: Uint8Array, what: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(json).toString());
    if (isRecord(value)) return value;
  } catch {
    // Said below.
  }
  throw invalid(`the ${what} are no JSON object`);
}

function nameAt(holder: Record<string, unknown>, field: string): string {
  const name = textAt(holder, field) ?? '';
  if (plainName.test(name)) return name;
  throw invalid(
    `${field} ${JSON.stringify(name.slice(0, 100))} is no name: letters, digits, ".", "_" and "-" are possible`,
  );
}

function timeAt(holder: Record<string, unknown>, field: string): string {
  const time = textAt(holder, field) ?? '';
  if (!Number.isNaN(Date.parse(time))) return time;
  throw invalid(`${field} ${JSON.stringify(time.slice(0, 100))} is no time as of RFC 3339`);
}

function invalid(text: string): LauncherError {
  return new LauncherError('INVALID_REQUEST', text);
}
