import { type Clock, memberAt, sleep } from '../../base/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import { LauncherError } from '../errors.ts';
import type { Hypervisor } from '../ports.ts';
import { runAgentCommand } from './command.ts';

export interface ExecRequest {
  readonly command: string;
  readonly args: readonly string[];
  readonly timeoutSeconds: number;
}

export interface ExecResult {
  readonly exitCode: number;
  readonly stdout: string;
}

const shortestPollMs = 50;

/**
 * Runs a program in the guest (`Exec` of upstream's cmd-server). A non-zero exit is a result, everything else that fails is
 * thrown.
 */
export async function execInGuest(
  hypervisor: Pick<Hypervisor, 'agentCommand'>,
  domain: DomainRef,
  request: ExecRequest,
  clock: Clock,
): Promise<ExecResult> {
  const { command, args, timeoutSeconds } = request;
  if (command === '') throw new LauncherError('INVALID_REQUEST', 'there is no command to run in the guest');
  const started = await runAgentCommand(hypervisor, domain, {
    execute: 'guest-exec',
    arguments: { path: command, arg: args, 'capture-output': true },
  });
  const pid = memberAt(started, 'pid');
  if (typeof pid !== 'number' || pid <= 0) {
    throw new LauncherError('AGENT_FAILED', 'the guest agent started the command but gave no process id');
  }
  const limitMs = Math.max(1, timeoutSeconds) * 1000;
  const endMs = clock.monotonicMs() + limitMs;
  while (true) {
    const status = await runAgentCommand(hypervisor, domain, { execute: 'guest-exec-status', arguments: { pid } });
    if (memberAt(status, 'exited') === true) return resultOf(status);
    if (clock.monotonicMs() >= endMs) {
      throw new LauncherError('AGENT_FAILED', `the command is still running in the guest after ${timeoutSeconds} s`);
    }
    await sleep(Math.max(shortestPollMs, limitMs / 10), undefined, clock);
  }
}

function resultOf(status: unknown): ExecResult {
  const exitCode = memberAt(status, 'exitcode');
  const output = memberAt(status, 'out-data');
  return {
    exitCode: typeof exitCode === 'number' ? exitCode : -1,
    stdout: typeof output === 'string' ? Buffer.from(output, 'base64').toString('utf8') : '',
  };
}
