import type { VirtualMachineInstance } from '../../api/index.ts';
import type { Logger } from '../../base/index.ts';
import type { cmd } from '../../wire/index.ts';
import { decodeVmi, type VmiIdentity } from '../domain/index.ts';
import { command, ok, unary } from './respond.ts';

/** What the Cmd service asks of the guest, by way of its agent. */
export interface GuestCommands {
  freeze(vmi: VirtualMachineInstance, unfreezeAfterSeconds: number): Promise<void>;
  unfreeze(): Promise<void>;
  exec(request: {
    readonly domainName: string;
    readonly command: string;
    readonly args: readonly string[];
    readonly timeoutSeconds: number;
  }): Promise<{ readonly exitCode: number; readonly stdout: string }>;
  ping(domainName: string, timeoutSeconds: number): Promise<void>;
}

interface Deps {
  readonly identity: VmiIdentity;
  readonly guest: GuestCommands;
  readonly log: Logger;
}

export function guestHandlers({ identity, guest, log }: Deps) {
  return {
    freezeVirtualMachine: command<cmd.FreezeRequest>(log, 'Freeze', async (request) =>
      guest.freeze(decodeVmi(request.vmi?.vmiJson, identity), request.unfreezeTimeoutSeconds),
    ),
    unfreezeVirtualMachine: command<cmd.VMIRequest>(log, 'Unfreeze', async (request) => {
      decodeVmi(request.vmi?.vmiJson, identity);
      await guest.unfreeze();
    }),
    // As upstream's, these two answer a failure with a gRPC error.
    exec: unary<cmd.ExecRequest, cmd.ExecResponse>(async ({ domainName, Command, Args, timeoutSeconds }) => {
      const { exitCode, stdout } = await guest.exec({ domainName, command: Command, args: Args, timeoutSeconds });
      return { response: ok, exitCode, stdOut: stdout };
    }),
    guestPing: unary<cmd.GuestPingRequest, cmd.GuestPingResponse>(async ({ domainName, timeoutSeconds }) => {
      await guest.ping(domainName, timeoutSeconds);
      return { response: ok };
    }),
  };
}
