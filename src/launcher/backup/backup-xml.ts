import path from 'node:path';
import { isTrackingRecord, type LiveDisk, renderXml } from '../domain/index.ts';

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
export function backupFile({ directory, backupName }: BackupPlan, volume: string): string {
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
      driver: { '@type': 'qcow2' },
      target: { '@file': backupFile(plan, disk.name) },
    };
  });
  return renderXml('domainbackup', { '@mode': 'push', disks: { disk: disks } });
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
