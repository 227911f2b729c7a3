import type { cmd } from '../wire/index.ts';

type Service = typeof cmd.CmdService;
export type CommandRpc = keyof Service;
export type CommandRequest<R extends CommandRpc> = Parameters<Service[R]['requestSerialize']>[0];
export type CommandResponse<R extends CommandRpc> = ReturnType<Service[R]['responseDeserialize']>;

export interface CommandSpec {
  /** Name in error texts. */
  readonly name: string;
  readonly timeoutMs: number;
  /** False: an answer with success=false is a value, not an error, as upstream's client has it. */
  readonly checked?: false;
}

const short = 5_000;
const long = 20_000;
const freeze = 60_000;

/**
 * Deadlines, and the names that error texts carry, of upstream's `pkg/virt-handler/cmd-client/client.go`. Exec and GuestPing add
 * their own seconds to 5.
 */
export const commands: Readonly<Record<CommandRpc, CommandSpec>> = {
  syncVirtualMachine: { name: 'SyncVMI', timeoutMs: long },
  pauseVirtualMachine: { name: 'Pause', timeoutMs: long },
  unpauseVirtualMachine: { name: 'Unpause', timeoutMs: long },
  freezeVirtualMachine: { name: 'Freeze', timeoutMs: freeze },
  unfreezeVirtualMachine: { name: 'Unfreeze', timeoutMs: long },
  resetVirtualMachine: { name: 'Reset', timeoutMs: long },
  softRebootVirtualMachine: { name: 'SoftReboot', timeoutMs: long },
  shutdownVirtualMachine: { name: 'Shutdown', timeoutMs: long },
  killVirtualMachine: { name: 'Kill', timeoutMs: long },
  deleteVirtualMachine: { name: 'Delete', timeoutMs: long },
  migrateVirtualMachine: { name: 'Migrate', timeoutMs: long },
  syncMigrationTarget: { name: 'SyncMigrationTarget', timeoutMs: long },
  cancelVirtualMachineMigration: { name: 'CancelMigration', timeoutMs: long },
  signalTargetPodCleanup: { name: 'SignalTargetPodCleanup', timeoutMs: long },
  finalizeVirtualMachineMigration: { name: 'FinalizeVirtualMachineMigration', timeoutMs: long },
  hotplugHostDevices: { name: 'HotplugHostDevices', timeoutMs: long },
  getDomain: { name: 'GetDomain', timeoutMs: short },
  getDomainStats: { name: 'GetDomainStats', timeoutMs: short },
  getGuestInfo: { name: 'GetGuestInfo', timeoutMs: short },
  getUsers: { name: 'GetUsers', timeoutMs: short },
  getFilesystems: { name: 'GetFilesystems', timeoutMs: short },
  ping: { name: 'Ping', timeoutMs: short },
  exec: { name: 'Exec', timeoutMs: short, checked: false },
  guestPing: { name: 'GuestPing', timeoutMs: short, checked: false },
  virtualMachineMemoryDump: { name: 'Memorydump', timeoutMs: long },
  getQemuVersion: { name: 'GetQemuVersion', timeoutMs: short },
  syncVirtualMachineCpUs: { name: 'SyncVirtualMachineCPUs', timeoutMs: long },
  syncVirtualMachineMemory: { name: 'SyncVirtualMachineMemory', timeoutMs: long },
  getSevInfo: { name: 'GetSEVInfo', timeoutMs: short },
  getLaunchMeasurement: { name: 'GetLaunchMeasurement', timeoutMs: short },
  injectLaunchSecret: { name: 'InjectLaunchSecret', timeoutMs: long },
  getDomainDirtyRateStats: { name: 'GetDomainDirtyRateStats', timeoutMs: long },
  getScreenshot: { name: 'GetScreenshot', timeoutMs: short },
  backupVirtualMachine: { name: 'Backup', timeoutMs: long },
  redefineCheckpoint: { name: 'RedefineCheckpoint', timeoutMs: long, checked: false },
  // One part that fails spoils no other.
  getVmStats: { name: 'GetVMStats', timeoutMs: short, checked: false },
};
