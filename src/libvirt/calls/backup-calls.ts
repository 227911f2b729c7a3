import type { DomainRef } from '../domain.ts';
import { procedures } from '../procedures.ts';
import type { LibvirtCallOptions } from './connection-calls.ts';
import { MigrationCalls } from './migration-calls.ts';

/** Backups of the disks of a running domain, and the checkpoints that later ones begin at. */
export abstract class BackupCalls extends MigrationCalls {
  /**
   * Begins a backup job, and with `checkpointXml` a checkpoint at the same instant. It ends by a `jobCompleted` event. While another job
   * runs the daemon lets the call wait for half a minute before it refuses it.
   */
  beginBackup(
    domain: DomainRef,
    xml: { readonly backup: string; readonly checkpoint?: string },
    options?: LibvirtCallOptions,
  ): Promise<void> {
    const args = { domain, backupXml: xml.backup, checkpointXml: xml.checkpoint, flags: 0 };
    return this.invoke(procedures.domainBackupBegin, args, options);
  }

  /** `flags`: `CheckpointCreateFlag`. Redefine without a bitmap: CHECKPOINT_INCONSISTENT. */
  async createCheckpoint(domain: DomainRef, xml: string, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    await this.invoke(procedures.domainCheckpointCreateXml, { domain, xml, flags }, options);
  }

  /** Names. */
  async listCheckpoints(domain: DomainRef, options?: LibvirtCallOptions): Promise<readonly string[]> {
    const args = { domain, needResults: 1, flags: 0 };
    const { checkpoints } = await this.invoke(procedures.domainCheckpointListAll, args, options);
    return checkpoints.map(({ name }) => name);
  }

  /** With its bitmaps. */
  deleteCheckpoint(domain: DomainRef, name: string, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainCheckpointDelete, { checkpoint: { name, domain }, flags: 0 }, options);
  }
}
