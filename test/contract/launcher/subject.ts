import { existsSync } from 'node:fs';
import { credentials, Metadata } from '@grpc/grpc-js';
import type { Domain } from '../../../src/api/index.ts';
import { clientOptions, type cmd, cmdInfo } from '../../../src/wire/index.ts';
import { type CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { launcherVmi } from '../../fixtures/launcher-vmi.ts';
import type { NotifyAgent } from '../../fixtures/notify-agent.ts';

/** A launcher of `launcherVmi` as an agent meets it: its command socket, and the events it sends. */
export interface LauncherSubject {
  readonly cmd: CmdCaller;
  readonly commandSocket: string;
  readonly agent: NotifyAgent;
  /** The guest powers off by itself; absent where the guest has no operating system. */
  readonly powerOff?: () => void;
  /** Resolves when the launcher has ended. */
  readonly ended: Promise<unknown>;
  close(): Promise<void>;
}

export type StartSubject = () => Promise<LauncherSubject>;

export const vmi = launcherVmi();

export async function currentDomain({ cmd }: LauncherSubject): Promise<Domain | undefined> {
  const { response, domain } = await cmd.call(cmd.client.getDomain, {});
  if (response?.success !== true) throw new Error(`GetDomain failed: ${response?.message}`);
  return domain === '' ? undefined : (JSON.parse(domain) as Domain);
}

/** `Running/Unknown`, or `none`. */
export async function currentState(subject: LauncherSubject): Promise<string> {
  const domain = await currentDomain(subject);
  return domain ? `${domain.Status.Status}/${domain.Status.Reason}` : 'none';
}

/** Calls that take a VMI and answer with a bare response. */
export type VmiCallName =
  | 'pauseVirtualMachine'
  | 'unpauseVirtualMachine'
  | 'resetVirtualMachine'
  | 'softRebootVirtualMachine'
  | 'shutdownVirtualMachine'
  | 'killVirtualMachine'
  | 'deleteVirtualMachine'
  | 'unfreezeVirtualMachine'
  | 'syncVirtualMachineCpUs'
  | 'syncMigrationTarget'
  | 'cancelVirtualMachineMigration'
  | 'finalizeVirtualMachineMigration'
  | 'signalTargetPodCleanup';

export function command({ cmd }: LauncherSubject, name: VmiCallName, object: object = vmi): Promise<cmd.Response> {
  return cmd.call(cmd.client[name], vmiRequest(object));
}

/** What the launcher says before anything else is asked. */
export function versionsOf({ commandSocket }: LauncherSubject): Promise<number[]> {
  const client = new cmdInfo.CmdInfoClient(`unix:${commandSocket}`, credentials.createInsecure(), clientOptions());
  return new Promise<number[]>((resolve, reject) => {
    client.info({}, new Metadata(), { deadline: Date.now() + 5_000 }, (error, answer) =>
      error ? reject(error) : resolve(answer.supportedCmdVersions),
    );
  }).finally(() => client.close());
}

export const socketFileStays = ({ commandSocket }: LauncherSubject) => existsSync(commandSocket);
