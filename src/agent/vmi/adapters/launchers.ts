import type { LauncherState, LauncherTarget } from '../../../api/index.ts';
import { CodedError, errorCode, errorMessage } from '../../../base/index.ts';
import { type LauncherClients as Clients, type OpenConnection, vmiRequest } from '../../../launcher-client/index.ts';
import { readGuestInfo } from '../guest-agent/index.ts';
import type { LauncherCalls, LauncherConnections, SyncOptions } from '../ports.ts';

type RequestOptions = NonNullable<Parameters<typeof vmiRequest>[1]>;

/** Failures in the words of the port; the message stays the launcher client's. */
export class LauncherCallError extends CodedError<'DISCONNECTED' | 'UNRESPONSIVE' | 'REFUSED' | 'FAILED'> {}

const codes: Readonly<Record<string, LauncherCallError['code']>> = {
  DISCONNECTED: 'DISCONNECTED',
  NOT_LISTENING: 'DISCONNECTED',
  TIMEOUT: 'UNRESPONSIVE',
  UNAVAILABLE: 'UNRESPONSIVE',
  COMMAND_FAILED: 'REFUSED',
  // An old launcher: it will say the same next time.
  UNIMPLEMENTED: 'REFUSED',
};

/** The launcher clients behind the port. */
export function launcherPort(clients: Clients): LauncherConnections {
  return {
    state: async (target) => checkedState(await clients.state(target), target, clients),
    connect: async (target, signal) => callsOf(await mapped(clients.connect(target, signal))),
    launcherPid: (target, signal) => mapped(clients.launcherPid(target, signal)),
    close: (key, uid) => clients.close(key, uid),
    onChange: (listener) => clients.onChange(listener),
  };
}

/** An empty pods directory is a mount that is missing rather than a node whose launchers all died: it proves nothing. */
function checkedState(state: LauncherState, target: LauncherTarget, clients: Clients): LauncherState {
  if (state.kind !== 'dead' || Object.keys(target.activePods).length === 0) return state;
  const reason = clients.podsProblem;
  return reason === undefined ? state : { kind: 'unclear', reason };
}

function callsOf(connection: OpenConnection): LauncherCalls {
  return {
    syncVirtualMachine: async (vmi, options, signal) => {
      await mapped(connection.call('syncVirtualMachine', vmiRequest(vmi, requestOptions(options)), signal));
    },
    shutdownVirtualMachine: async (vmi, signal) => {
      await mapped(connection.call('shutdownVirtualMachine', vmiRequest(vmi), signal));
    },
    killVirtualMachine: async (vmi, signal) => {
      await mapped(connection.call('killVirtualMachine', vmiRequest(vmi), signal));
    },
    deleteVirtualMachine: async (vmi, signal) => {
      await mapped(connection.call('deleteVirtualMachine', vmiRequest(vmi), signal));
    },
    hotplugHostDevices: async (vmi, signal) => {
      await mapped(connection.call('hotplugHostDevices', vmiRequest(vmi, {}), signal));
    },
    dumpMemory: async (vmi, dumpPath, signal) => {
      const request = { vmi: vmiRequest(vmi).vmi, dumpPath };
      await mapped(connection.call('virtualMachineMemoryDump', request, signal));
    },
    ...migrationCallsOf(connection),
  };
}

type MigrationCalls = Omit<
  LauncherCalls,
  | 'syncVirtualMachine'
  | 'shutdownVirtualMachine'
  | 'killVirtualMachine'
  | 'deleteVirtualMachine'
  | 'dumpMemory'
  | 'hotplugHostDevices'
>;

function migrationCallsOf(connection: OpenConnection): MigrationCalls {
  return {
    syncMigrationTarget: async (vmi, options, signal) => {
      await mapped(connection.call('syncMigrationTarget', vmiRequest(vmi, targetOptions(options)), signal));
    },
    migrateVirtualMachine: async (vmi, options, signal) => {
      const request = { vmi: vmiRequest(vmi).vmi, options: Buffer.from(JSON.stringify(options)) };
      await mapped(connection.call('migrateVirtualMachine', request, signal));
    },
    cancelVirtualMachineMigration: async (vmi, signal) => {
      await mapped(connection.call('cancelVirtualMachineMigration', vmiRequest(vmi), signal));
    },
    finalizeVirtualMachineMigration: async (vmi, interfaceMigration, signal) => {
      const methods = Object.entries(interfaceMigration).map(([name, Method]) => [name, { Method }] as const);
      const request = vmiRequest(vmi, { interfaceMigration: Object.fromEntries(methods) });
      await mapped(connection.call('finalizeVirtualMachineMigration', request, signal));
    },
    signalTargetPodCleanup: async (vmi, signal) => {
      await mapped(connection.call('signalTargetPodCleanup', vmiRequest(vmi), signal));
    },
    syncVirtualMachineCpus: async (vmi, options, signal) => {
      const { interfaceDomainAttachment: _left, ...syncPayload } = targetOptions(options);
      await mapped(connection.call('syncVirtualMachineCpUs', vmiRequest(vmi, syncPayload), signal));
    },
    syncVirtualMachineMemory: async (vmi, options, signal) => {
      const { interfaceDomainAttachment: _left, ...syncPayload } = targetOptions(options);
      await mapped(connection.call('syncVirtualMachineMemory', vmiRequest(vmi, syncPayload), signal));
    },
    getGuestInfo: async (signal) =>
      readGuestInfo((await mapped(connection.call('getGuestInfo', {}, signal))).guestInfoResponse),
  };
}

async function mapped<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (cause) {
    throw new LauncherCallError(codes[errorCode(cause) ?? ''] ?? 'FAILED', errorMessage(cause), { cause });
  }
}

/** What upstream sends to the target of a migration: no SMBIOS, balloon period and preallocated volumes. */
function targetOptions(options: SyncOptions): RequestOptions {
  const { VirtualMachineSMBios: _smbios, ...syncPayload } = requestOptions(options);
  return { ...syncPayload, MemBalloonStatsPeriod: 0, PreallocatedVolumes: [] };
}

/** As upstream's `pkg/virt-handler/options.go` fills them in, in the names of the wire. */
function requestOptions(options: SyncOptions): RequestOptions {
  const { clusterFlags: flags, smbios } = options;
  return {
    ...(smbios && {
      VirtualMachineSMBios: { manufacturer: '', product: '', version: '', sku: '', family: '', ...smbios },
    }),
    MemBalloonStatsPeriod: options.memBalloonStatsPeriodSeconds,
    PreallocatedVolumes: [...options.preallocatedVolumes],
    ...(options.topology && { topology: { numa_cells: options.topology.map(toCell) } }),
    clusterConfig: {
      ExpandDisksEnabled: false,
      FreePageReportingDisabled: flags.freePageReportingDisabled,
      BochsDisplayForEFIGuests: flags.bochsDisplayForEfiGuests,
      SerialConsoleLogDisabled: flags.serialConsoleLogDisabled,
      PCINUMAAwareTopologyEnabled: flags.pciNumaAwareTopologyEnabled,
      VGPULiveMigrationEnabled: flags.vgpuLiveMigrationEnabled,
      GraceIOVirtualizationEnabled: flags.graceIoVirtualizationEnabled,
    },
    interfaceDomainAttachment: { ...options.interfaceDomainAttachment },
    GraceHostDeviceAliases: [...options.graceHostDeviceAliases],
  };
}

function toCell(cell: NonNullable<SyncOptions['topology']>[number]) {
  return {
    id: cell.id,
    memory: cell.memory && { amount: BigInt(cell.memory.amount), unit: cell.memory.unit },
    pages: cell.pages.map(({ count, unit, size }) => ({ count: BigInt(count), unit, size })),
    distances: cell.distances.map(({ id, value }) => ({ id, value: BigInt(value) })),
    cpus: cell.cpus.map(({ id, siblings }) => ({ id, siblings: [...siblings] })),
  };
}
