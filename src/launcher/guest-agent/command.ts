import { errorMessage } from '../../base/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import { LauncherError } from '../errors.ts';
import type { Hypervisor } from '../ports.ts';

export interface AgentCommand {
  readonly execute: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

/**
 * One command of the QEMU guest agent; gives what is below `return`. Arguments are encoded as JSON, never pasted. Throws
 * `LibvirtError` (AGENT_UNRESPONSIVE without an agent) or AGENT_FAILED when the answer cannot be read.
 */
export async function runAgentCommand(
  hypervisor: Pick<Hypervisor, 'agentCommand'>,
  domain: DomainRef,
  command: AgentCommand,
  timeoutSeconds = 5,
): Promise<unknown> {
  const answer = await hypervisor.agentCommand(domain, JSON.stringify(command), timeoutSeconds);
  const parsed = parseAnswer(command.execute, answer);
  if (typeof parsed !== 'object' || parsed === null || !('return' in parsed)) {
    throw new LauncherError('AGENT_FAILED', `the guest agent answered ${command.execute} without a result`);
  }
  return parsed.return;
}

function parseAnswer(name: string, answer: string): unknown {
  try {
    return JSON.parse(answer);
  } catch (cause) {
    throw new LauncherError('AGENT_FAILED', `the guest agent's answer to ${name} is no JSON: ${errorMessage(cause)}`, {
      cause,
    });
  }
}
