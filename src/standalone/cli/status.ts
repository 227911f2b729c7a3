import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { type EventObject, type KubeObject, labels, resources, type VirtualMachineInstance } from '../../api/index.ts';
import { lostWritesReason } from '../../apiserver/index.ts';
import { plainText } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere } from '../files.ts';

import { pageAddress } from '../page/index.ts';
import { memberIndex, memberName, type NodePaths } from '../paths.ts';
import { isAlive, parseIdentity } from '../process-identity.ts';
import { runningSupervisor } from '../supervisor/index.ts';
import { connectToNode } from './find-vmi.ts';

interface NodeObject extends KubeObject {
  readonly spec?: { readonly unschedulable?: boolean };
  readonly status?: { readonly addresses?: readonly { readonly type: string; readonly address: string }[] };
}

/** Lines for a person, and whether the node runs. */
export async function describeNode(
  paths: NodePaths,
): Promise<{ readonly lines: string[]; readonly isRunning: boolean }> {
  const supervisor = await runningSupervisor(paths);
  const lines = [supervisor ? `virt-node        running (pid ${supervisor.pid})` : 'virt-node        not running'];
  for (const name of ['apiserver', 'virt-controller', ...(await agentPrograms(paths))]) {
    const identity = parseIdentity((await readIfThere(path.join(paths.runDir, `${name}.pid`))) ?? '');
    const alive = identity !== undefined && (await isAlive(identity));
    lines.push(`${name.padEnd(16)} ${alive ? `running (pid ${identity.pid})` : 'not running'}`);
  }
  lines.push(
    `state            ${paths.stateDir}`,
    `logs             ${paths.logDir}`,
    `KUBECONFIG       ${paths.kubeconfig}`,
  );
  if (supervisor) lines.push(`web page         ${await shownPage(paths)}`);
  if (supervisor) lines.push(...(await describeObjects(paths)));
  return { lines, isRunning: supervisor !== undefined };
}

/** An agent per node; a single one's has no number. */
async function agentPrograms({ runDir }: NodePaths): Promise<string[]> {
  const files = await readdir(runDir).catch((): string[] => []);
  const indices = files.flatMap((file) => memberIndex(file, 'virt-handler', '.pid') ?? []);
  return [...new Set([1, ...indices])].sort((a, b) => a - b).map((index) => memberName('virt-handler', index));
}

/** Without the token: a status is shown to others. */
async function shownPage(paths: NodePaths): Promise<string> {
  const address = await pageAddress(paths);
  if (address === undefined) return 'none, or yours to see only as root';
  return `${address.split('#', 1)[0]} (\`virt-node url\` prints it with its token)`;
}

/** Address of the page with its token, of a node that runs. Throws NodeError. */
export async function pageUrl(paths: NodePaths): Promise<string> {
  if (!(await runningSupervisor(paths))) throw new NodeError('NOT_RUNNING', `no node runs on ${paths.stateDir}`);
  const address = await pageAddress(paths);
  if (address !== undefined) return address;
  throw new NodeError(
    'NOT_FOUND',
    `${paths.webAddress} cannot be read: the node serves no page (--web-port 0), or use sudo`,
  );
}

async function describeObjects(paths: NodePaths): Promise<string[]> {
  try {
    const client = await connectToNode(paths);
    try {
      const nodes = (await client.list<NodeObject>(resources.nodes)).items;
      const { items } = await client.list<VirtualMachineInstance>(resources.virtualMachineInstances);
      const vmis = items.map(({ metadata, status }) =>
        plainText(
          `VMI              ${metadata.namespace}/${metadata.name} ${status?.phase ?? ''}${on(nodes, status?.nodeName)}`,
        ),
      );
      return [...(await describeProblems(client)), ...nodes.map(describeMember), ...vmis];
    } finally {
      client.close();
    }
  } catch {
    return ['the Kubernetes API does not answer'];
  }
}

/** Where there is one node, it is there that a VMI is. */
function on(nodes: readonly NodeObject[], name: string | undefined): string {
  return nodes.length > 1 && name ? ` on ${name}` : '';
}

function describeMember({ metadata, spec, status }: NodeObject): string {
  const address = status?.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '';
  const takes = metadata.labels?.[labels.schedulable] === 'true' ? 'takes VMs' : 'takes no VMs: its agent is not ready';
  return `node             ${metadata.name} ${address} ${spec?.unschedulable ? 'cordoned, takes no VMs' : takes}`;
}

/** What the API server said about its database within the last hour. */
async function describeProblems(client: KubeClient): Promise<string[]> {
  const where = { namespace: 'default', fieldSelector: `reason=${lostWritesReason}` };
  const { items } = await client.list<EventObject>(resources.events, where);
  return items.map(({ message }) => `PROBLEM          ${message}`);
}
