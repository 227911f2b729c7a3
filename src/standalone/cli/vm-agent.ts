import type { WebSocket } from 'ws';
import type { VirtualMachineInstance } from '../../api/index.ts';
import { AgentApi, AgentRefusal, agentOf, vmPath } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';
import type { NodePaths } from '../paths.ts';
import { ConsoleStream, type ConsoleWish } from './console-stream.ts';
import { connectToNode, findVmi, namespaceFlag } from './find-vmi.ts';

/** Upstream's; a viewer program knows nothing of notices. */
const plainProtocol = 'plain.kubevirt.io';

/** Which VM a command is about. */
export interface VmName {
  readonly namespace: string;
  readonly name: string;
}

/** Opens the serial console of a VM of this node. Rejects with NodeError, whose message says what to do. */
export async function openConsole(
  paths: NodePaths,
  wish: ConsoleWish,
  signal: AbortSignal,
  report: (line: string) => void = () => undefined,
): Promise<ConsoleStream> {
  return explained(paths, wish, ConsoleStream.open(wish, { agent: new AgentApi(agentOf(paths)), report }, signal));
}

/**
 * What opens the screen of a VM for one viewer after the other. Rejects when it does not run now; what it gives rejects with
 * NodeError, too.
 */
export async function openScreen(
  paths: NodePaths,
  { namespace, name }: VmName,
  access: ConsoleWish['access'],
): Promise<(signal: AbortSignal) => Promise<WebSocket>> {
  const client = await connectToNode(paths);
  requireRunning(await findVmi(client, namespace, name).finally(() => client.close()));
  const agent = new AgentApi(agentOf(paths));
  const path = `${vmPath(namespace, name)}/vnc?${new URLSearchParams({ access })}`;
  return (signal) => explained(paths, { namespace, name }, agent.stream(path, plainProtocol, signal));
}

const done = {
  pause: 'is paused',
  unpause: 'runs again',
  softreboot: 'was asked to reboot',
  reset: 'was reset',
} as const;

export type CliVmAction = keyof typeof done;

/** Does it, and gives a sentence for people. Rejects with NodeError. */
export async function actOnVm(paths: NodePaths, vm: VmName, action: CliVmAction): Promise<string> {
  await explained(paths, vm, new AgentApi(agentOf(paths)).call('PUT', `${vmPath(vm.namespace, vm.name)}/${action}`));
  return `${vm.namespace}/${vm.name} ${done[action]}`;
}

/** Adds to a refusal of the agent what the API knows of the VM. */
export async function explained<T>(paths: NodePaths, { namespace, name }: VmName, asking: Promise<T>): Promise<T> {
  try {
    return await asking;
  } catch (error) {
    if (!(error instanceof AgentRefusal)) throw error;
    const client = await connectToNode(paths);
    const vmi = await findVmi(client, namespace, name).finally(() => client.close());
    const phase = vmi.status?.phase || 'not started';
    if (phase !== 'Running') {
      throw new NodeError(
        'NO_CONSOLE',
        `${namespace}/${name} is ${phase}, not Running: nothing can be done with it now, virt-node explain ${name}${namespaceFlag(namespace)} says why`,
        {
          cause: error,
        },
      );
    }
    if (error.httpStatus === 503 && error.message.startsWith('Active')) {
      const text = 'somebody else uses it now: --take takes it over, --view looks on';
      throw new NodeError('AGENT_REFUSED', text, { cause: error });
    }
    throw error;
  }
}

function requireRunning({ metadata: { namespace, name }, status }: VirtualMachineInstance): void {
  const phase = status?.phase || 'not started';
  if (phase === 'Running') return;
  throw new NodeError('NO_CONSOLE', `${namespace}/${name} is ${phase}, not Running: it has no console or screen now`);
}
