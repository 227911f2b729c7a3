import path from 'node:path';
import { isTrackingRecord, type LiveDisk, renderXml, type XmlContent } from '../domain/index.ts';

/** A disk that goes into a backup. */
export interface BackupDisk {
  /** The volume's. */
  readonly name: string;
  /** `vda`. */
  readonly target: string;
  /** The record of its changed blocks. */
  readonly record: string;
}

export interface BackupPlan {
  readonly all: readonly LiveDisk[];
  readonly checkpoint: string;
  readonly directory: string;
  readonly backupName: string;
  /** Where QEMU answers who reads the backup; undefined: it writes it itself. */
  readonly socket: string | undefined;
  /** Targets of disks of which only what changed since this checkpoint is wanted. */
  readonly changes: { readonly since: string; readonly targets: ReadonlySet<string> } | undefined;
}

/** Disks whose changed blocks are recorded: without a record there is no checkpoint for a later backup. */
export function backupDisks(all: readonly LiveDisk[]): BackupDisk[] {
  return all
    .filter(({ source, target }) => target !== '' && isTrackingRecord(source))
    .map(({ name, target, source }) => ({ name, target, record: source }));
}

/** Upstream's names, which tools for its backups look for. */
export function backupFile({ directory, backupName }: Pick<BackupPlan, 'directory' | 'backupName'>, volume: string) {
  return path.join(directory, `${backupName}-${volume}.qcow2`);
}

/**
 * What libvirt gets. Each disk says for itself whether it is whole or a change: one that came after the checkpoint is whole, where
 * upstream's request for all of them would be refused.
 */
export function backupXml(plan: BackupPlan): string {
  const included = new Map(backupDisks(plan.all).map((disk) => [disk.target, disk]));
  const disks = targetsOf(plan.all).map((target) => {
    const disk = included.get(target);
    if (!disk) return { '@name': target, '@backup': 'no' };
    const isChange = plan.changes?.targets.has(target);
    return {
      '@name': target,
      '@backup': 'yes',
      '@type': 'file',
      '@backupmode': isChange ? 'incremental' : 'full',
      '@incremental': isChange ? plan.changes?.since : undefined,
      ...destination(plan, disk.name),
    };
  });
  if (plan.socket === undefined) return renderXml('domainbackup', { '@mode': 'push', disks: { disk: disks } });
  const server = { '@transport': 'unix', '@socket': plan.socket };
  return renderXml('domainbackup', { '@mode': 'pull', server, disks: { disk: disks } });
}

/** Readers of a pull name the export by the volume, and the bitmap of what has changed by the new checkpoint, as upstream's do. */
function destination(plan: BackupPlan, volume: string): XmlContent {
  const driver = { '@type': 'qcow2' };
  const file = { '@file': backupFile(plan, volume) };
  if (plan.socket === undefined) return { driver, target: file };
  return { '@exportname': volume, '@exportbitmap': plan.checkpoint, driver, scratch: file };
}

/** The checkpoint of a backup, with all that are in it. */
export function checkpointXml({ all, checkpoint }: Pick<BackupPlan, 'all' | 'checkpoint'>): string {
  const included = new Set(backupDisks(all).map(({ target }) => target));
  const disk = targetsOf(all).map((target) => ({
    '@name': target,
    '@checkpoint': included.has(target) ? 'bitmap' : 'no',
  }));
  return renderXml('domaincheckpoint', { name: checkpoint, disks: { disk } });
}

/** A checkpoint as libvirt is told of it again. */
export function redefinitionXml(name: string, createdAt: Date | undefined, targets: readonly string[]): string {
  return renderXml('domaincheckpoint', {
    name,
    ...(createdAt && { creationTime: Math.floor(createdAt.getTime() / 1000) }),
    disks: { disk: targets.map((target) => ({ '@name': target, '@checkpoint': 'bitmap' })) },
  });
}

function targetsOf(all: readonly LiveDisk[]): string[] {
  return all.map(({ target }) => target).filter((target) => target !== '');
}
