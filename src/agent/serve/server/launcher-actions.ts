import {
  isBeingDeleted,
  isFinal,
  keyOf,
  type LauncherTarget,
  type VirtualMachineInstance,
} from '../../../api/index.ts';
import { CodedError, isRecord } from '../../../base/index.ts';
import { type LauncherClients, type OpenConnection, vmiRequest } from '../../../launcher-client/index.ts';
import type { LauncherActions, LauncherCommands } from '../rest/index.ts';

/** The VMI is over: its launcher is left to the VMI loop, which cleans up. */
export class LauncherEndedError extends CodedError<'ENDED'> {}

/** Launchers for the routes, over the connections that the VMI loop has: pinned to a process, one per VMI. */
export function launcherActions(clients: Pick<LauncherClients, 'connect' | 'peek'>): LauncherActions {
  return {
    connect: async (vmi, signal) => {
      const open = clients.peek(vmi.metadata.uid ?? '');
      if (open?.connected) return commandsOf(open, vmi);
      // A new connection would be remembered on disk, for a VMI whose records may have been taken away already.
      if (isFinal(vmi) || isBeingDeleted(vmi)) {
        throw new LauncherEndedError(
          'ENDED',
          `VMI ${keyOf(vmi)} has ended or is being deleted: it has no launcher any more`,
        );
      }
      return commandsOf(await clients.connect(targetOf(vmi), signal), vmi);
    },
  };
}

function targetOf(vmi: VirtualMachineInstance): LauncherTarget {
  const pods: unknown = vmi.status?.activePods;
  const named = Object.entries(isRecord(pods) ? pods : {}).filter((entry): entry is [string, string] => {
    return typeof entry[1] === 'string';
  });
  const { uid = '' } = vmi.metadata;
  return { key: keyOf(vmi), uid, activePods: Object.fromEntries(named) };
}

function commandsOf(connection: OpenConnection, vmi: VirtualMachineInstance): LauncherCommands {
  const { pid, startTime, uid } = connection.peer;
  return {
    process: { pid, startTime, uid },
    ...guestCommands(connection, vmi),
    ...guestQuestions(connection, vmi),
  };
}

function guestCommands(connection: OpenConnection, vmi: VirtualMachineInstance) {
  const command =
    (
      rpc:
        | 'pauseVirtualMachine'
        | 'unpauseVirtualMachine'
        | 'resetVirtualMachine'
        | 'softRebootVirtualMachine'
        | 'unfreezeVirtualMachine',
    ) =>
    async (signal: AbortSignal) => {
      await connection.call(rpc, vmiRequest(vmi), signal);
    };
  const { vmi: named } = vmiRequest(vmi);
  const json = (value: object) => Buffer.from(JSON.stringify(value));
  return {
    pause: command('pauseVirtualMachine'),
    unpause: command('unpauseVirtualMachine'),
    reset: command('resetVirtualMachine'),
    softReboot: command('softRebootVirtualMachine'),
    unfreeze: command('unfreezeVirtualMachine'),
    freeze: async (unfreezeTimeoutSeconds: number, signal: AbortSignal) => {
      await connection.call('freezeVirtualMachine', { vmi: named, unfreezeTimeoutSeconds }, signal);
    },
    backup: async (options: object, signal: AbortSignal) => {
      await connection.call('backupVirtualMachine', { vmi: named, options: json(options) }, signal);
    },
    injectLaunchSecret: async (secret: object, signal: AbortSignal) => {
      await connection.call('injectLaunchSecret', { vmi: named, options: json(secret) }, signal);
    },
    redefineCheckpoint: async (checkpoint: object, signal: AbortSignal) => {
      const request = { vmi: named, checkpoint: json(checkpoint) };
      const { response, checkpointInvalid } = await connection.call('redefineCheckpoint', request, signal);
      if (response?.success !== false) return { kind: 'done' } as const;
      return { kind: 'refused', isCorrupt: checkpointInvalid, message: response.message } as const;
    },
  };
}

function guestQuestions(connection: OpenConnection, vmi: VirtualMachineInstance) {
  // Upstream sends no options with these two.
  const bare = { vmi: vmiRequest(vmi).vmi, options: undefined };
  return {
    guestInfo: async (signal: AbortSignal) => (await connection.call('getGuestInfo', {}, signal)).guestInfoResponse,
    users: async (signal: AbortSignal) => (await connection.call('getUsers', {}, signal)).guestUserListResponse,
    filesystems: async (signal: AbortSignal) =>
      (await connection.call('getFilesystems', {}, signal)).guestFilesystemsResponse,
    sevInfo: async (signal: AbortSignal) => text((await connection.call('getSevInfo', {}, signal)).sevInfo),
    launchMeasurement: async (signal: AbortSignal) =>
      text((await connection.call('getLaunchMeasurement', bare, signal)).launchMeasurement),
    screenshot: (signal: AbortSignal) => connection.call('getScreenshot', bare, signal),
  };
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}
