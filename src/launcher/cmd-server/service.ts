import type { VirtualMachineInstance } from '../../api/index.ts';
import { errorCode, type Logger } from '../../base/index.ts';
import type { cmd } from '../../wire/index.ts';
import { type ConverterOptions, decodeVmi, type VmiIdentity } from '../domain/index.ts';
import { type GuestCommands, guestHandlers } from './guest-handlers.ts';
import { type Queries, queryHandlers } from './query-handlers.ts';
import { attempt, command, unary } from './respond.ts';

/** What the Cmd service does with the domain; what a method throws is the caller's answer. */
export interface DomainCommands {
  sync(vmi: VirtualMachineInstance, options: ConverterOptions): Promise<void>;
  pause(): Promise<void>;
  unpause(): Promise<void>;
  reset(): Promise<void>;
  softReboot(vmi: VirtualMachineInstance): Promise<void>;
  shutdown(): Promise<void>;
  kill(): Promise<void>;
  delete(): Promise<void>;
  setVcpus(vmi: VirtualMachineInstance, options: ConverterOptions): Promise<void>;
  setMemory(vmi: VirtualMachineInstance): Promise<void>;
  /** Resolves when the devices are there, or come in a while. */
  plugHostDevices(vmi: VirtualMachineInstance): Promise<void>;
  signalTargetPodCleanup(vmi: VirtualMachineInstance): void;
  /** `options`: JSON with header and secret. */
  injectLaunchSecret(options: Uint8Array): Promise<void>;
  /** Resolves when it has begun. `dumpPath`: a file in a volume that was plugged in. */
  dumpMemory(dumpPath: string): Promise<void>;
  /** `options`: JSON. Resolves when the backup has begun, or was asked to end. */
  backup(options: Uint8Array): Promise<void>;
  /** `checkpoint`: JSON. Throws `LauncherError` CHECKPOINT_INVALID when a full backup has to come next. */
  redefineCheckpoint(checkpoint: Uint8Array): Promise<void>;
}

/** What the Cmd service asks of a live migration. */
export interface MigrationCommands {
  /** `options`: JSON. Resolves when the order is taken. */
  migrate(vmi: VirtualMachineInstance, options: Uint8Array): Promise<void>;
  cancel(vmi: VirtualMachineInstance): void;
  prepareTarget(vmi: VirtualMachineInstance, options: ConverterOptions): Promise<void>;
  /** `interfaces`: name → method, of network bindings that have one. */
  finalize(interfaces: Readonly<Record<string, string>>): Promise<void>;
}

export interface CommandServiceDeps {
  readonly identity: VmiIdentity;
  readonly domain: DomainCommands;
  readonly migration: MigrationCommands;
  readonly guest: GuestCommands;
  readonly queries: Queries;
  readonly log: Logger;
}

/** All 36 calls of `kubevirt.cmd.v1.Cmd` (`pkg/virt-launcher/virtwrap/cmd-server/server.go`). */
export function commandService(deps: CommandServiceDeps): cmd.CmdServer {
  return {
    ...domainHandlers(deps),
    ...migrationHandlers(deps),
    ...guestHandlers(deps),
    ...queryHandlers(deps),
  };
}

function domainHandlers({ identity, domain, log }: CommandServiceDeps) {
  const onVmi = (name: string, work: (vmi: VirtualMachineInstance, request: cmd.VMIRequest) => Promise<unknown>) =>
    command<cmd.VMIRequest>(log, name, async (request) => work(decodeVmi(request.vmi?.vmiJson, identity), request));
  return {
    syncVirtualMachine: onVmi('SyncVMI', (vmi, { options }) => domain.sync(vmi, converterOptions(options))),
    pauseVirtualMachine: onVmi('Pause', () => domain.pause()),
    unpauseVirtualMachine: onVmi('Unpause', () => domain.unpause()),
    resetVirtualMachine: onVmi('Reset', () => domain.reset()),
    softRebootVirtualMachine: onVmi('SoftReboot', (vmi) => domain.softReboot(vmi)),
    shutdownVirtualMachine: onVmi('Shutdown', () => domain.shutdown()),
    killVirtualMachine: onVmi('Kill', () => domain.kill()),
    deleteVirtualMachine: onVmi('Delete', () => domain.delete()),
    syncVirtualMachineCpUs: onVmi('SyncVirtualMachineCPUs', (vmi, { options }) =>
      domain.setVcpus(vmi, converterOptions(options)),
    ),
    syncVirtualMachineMemory: onVmi('SyncVirtualMachineMemory', (vmi) => domain.setMemory(vmi)),
    hotplugHostDevices: onVmi('HotplugHostDevices', (vmi) => domain.plugHostDevices(vmi)),
    virtualMachineMemoryDump: command<cmd.MemoryDumpRequest>(log, 'Memorydump', async ({ vmi, dumpPath }) => {
      decodeVmi(vmi?.vmiJson, identity);
      await domain.dumpMemory(dumpPath);
    }),
    backupVirtualMachine: command<cmd.BackupRequest>(log, 'Backup', async ({ vmi, options }) => {
      decodeVmi(vmi?.vmiJson, identity);
      await domain.backup(options);
    }),
    redefineCheckpoint: unary<cmd.RedefineCheckpointRequest, cmd.RedefineCheckpointResponse>(
      async ({ vmi, checkpoint }) => {
        let checkpointInvalid = false;
        const { response } = await attempt(async () => {
          decodeVmi(vmi?.vmiJson, identity);
          await domain.redefineCheckpoint(checkpoint).catch((error: unknown) => {
            checkpointInvalid = errorCode(error) === 'CHECKPOINT_INVALID';
            throw error;
          });
        });
        return { response, checkpointInvalid };
      },
    ),
    injectLaunchSecret: command<cmd.InjectLaunchSecretRequest>(log, 'InjectLaunchSecret', async ({ vmi, options }) => {
      decodeVmi(vmi?.vmiJson, identity);
      await domain.injectLaunchSecret(options);
    }),
    signalTargetPodCleanup: onVmi('SignalTargetPodCleanup', async (vmi) => domain.signalTargetPodCleanup(vmi)),
  };
}

function migrationHandlers({ identity, migration, log }: CommandServiceDeps) {
  const onVmi = (name: string, work: (vmi: VirtualMachineInstance, request: cmd.VMIRequest) => unknown) =>
    command<cmd.VMIRequest>(log, name, async (request) => work(decodeVmi(request.vmi?.vmiJson, identity), request));
  return {
    migrateVirtualMachine: command<cmd.MigrationRequest>(log, 'Migrate', async ({ vmi, options }) =>
      migration.migrate(decodeVmi(vmi?.vmiJson, identity), options),
    ),
    syncMigrationTarget: onVmi('SyncMigrationTarget', (vmi, { options }) =>
      migration.prepareTarget(vmi, converterOptions(options)),
    ),
    cancelVirtualMachineMigration: onVmi('CancelMigration', (vmi) => migration.cancel(vmi)),
    finalizeVirtualMachineMigration: onVmi('FinalizeVirtualMachineMigration', (_vmi, { options }) =>
      migration.finalize(migrationMethods(options)),
    ),
  };
}

function migrationMethods(options: cmd.VirtualMachineOptions | undefined): Record<string, string> {
  const entries = Object.entries(options?.interfaceMigration ?? {});
  return Object.fromEntries(entries.map(([name, { Method }]) => [name, Method]));
}

/** The agent's options (`pkg/virt-handler/options.go`) in the converter's names; empty wire values are left out. */
export function converterOptions(options: cmd.VirtualMachineOptions | undefined): ConverterOptions {
  if (!options) return {};
  const { VirtualMachineSMBios: smbios, clusterConfig } = options;
  return {
    ...(smbios && { smbios }),
    memBalloonStatsPeriodSeconds: options.MemBalloonStatsPeriod,
    preallocatedVolumes: options.PreallocatedVolumes,
    ...(clusterConfig && {
      clusterConfig: {
        freePageReportingDisabled: clusterConfig.FreePageReportingDisabled,
        bochsDisplayForEfiGuests: clusterConfig.BochsDisplayForEFIGuests,
        serialConsoleLogDisabled: clusterConfig.SerialConsoleLogDisabled,
        pciNumaAwareTopologyEnabled: clusterConfig.PCINUMAAwareTopologyEnabled,
      },
    }),
    graceHostDeviceAliases: options.GraceHostDeviceAliases,
    ...(options.topology && {
      topology: options.topology.numa_cells.map(({ id, cpus }) => ({
        id,
        cpus: cpus.map((cpu) => ({ id: cpu.id, siblings: cpu.siblings })),
      })),
    }),
    interfaceDomainAttachment: options.interfaceDomainAttachment,
  };
}
