import type { AgentReply, PowerAction, PowerOutcome, VmSubresources, VmTarget } from '../../apiserver/index.ts';
import { type Logger, unreachable } from '../../base/index.ts';
import { KubeClient, loadKubeAccess } from '../../kube/index.ts';
import { AgentApi, AgentProxy, AgentRefusal, agentOf } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';
import type { GuestDial } from '../guest-dial.ts';
import { restartVm, startVm, stopVm } from '../page/index.ts';
import type { NodePaths } from '../paths.ts';
import { PortForward } from './port-forward.ts';

/** As virt-api has it; a freeze that takes longer goes on in the guest. */
const callTimeoutMs = 60_000;

/** virt-api's part on the standalone node: its calls to the agent, and what start, stop and restart write. */
export function vmSubresourcesOf(paths: NodePaths, dial: GuestDial, log: Logger): VmSubresources {
  const find = agentOf(paths);
  const agent = new AgentApi(find);
  const proxy = new AgentProxy({ find, log });
  const ports = new PortForward({ dial, log });
  return {
    call: (method, path, body, signal) => callAgent(agent, method, path, { body, signal }),
    upgrade: (request, socket, head) => proxy.upgrade(request, socket, head),
    forward: (to, request, socket, head) => ports.serve(to, request, socket, head),
    power: async (action, target, isPaused, signal) => {
      // The API's own: its kubeconfig is written after it listens, and names its port.
      const access = await loadKubeAccess({ kubeconfig: paths.kubeconfig });
      const client = new KubeClient({ userAgent: 'virt-node-api' }, { access, log });
      return power(client, action, { target, isPaused, signal }).finally(() => client.close());
    },
  };
}

async function callAgent(
  agent: AgentApi,
  method: 'GET' | 'PUT',
  path: string,
  { body, signal }: { readonly body: string; readonly signal: AbortSignal },
): Promise<AgentReply> {
  try {
    const answer = await agent.call(method, path, { ...(body !== '' && { body }), signal, timeoutMs: callTimeoutMs });
    return { httpStatus: 200, ...answer };
  } catch (error) {
    if (!(error instanceof AgentRefusal)) throw error;
    return { httpStatus: error.httpStatus, contentType: 'text/plain', body: Buffer.from(error.message) };
  }
}

interface PowerWish {
  readonly target: VmTarget;
  readonly isPaused: boolean;
  readonly signal: AbortSignal;
}

async function power(client: KubeClient, action: PowerAction, wish: PowerWish): Promise<PowerOutcome> {
  const { target, isPaused, signal } = wish;
  try {
    switch (action) {
      case 'start':
        await startVm(client, target, signal, isPaused);
        break;
      case 'stop':
        await stopVm(client, target, signal);
        break;
      case 'restart':
        await restartVm(client, target, signal);
        break;
      default:
        return unreachable(action);
    }
    return { kind: 'done' };
  } catch (error) {
    if (!(error instanceof NodeError)) throw error;
    return { kind: 'refused', why: error.code === 'NOT_FOUND' ? 'not-found' : 'conflict', message: error.message };
  }
}
