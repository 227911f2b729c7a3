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
import { type Paint, painted, plain } from './style.ts';

interface NodeObject extends KubeObject {
  readonly spec?: { readonly unschedulable?: boolean };
  readonly status?: { readonly addresses?: readonly { readonly type: string; readonly address: string }[] };
}

/** What `virt-node status -o json` gives; fields are added, and none changes its meaning. */
export interface NodeStatus {
  readonly kind: 'NodeStatus';
  readonly running: boolean;
  /** Of the supervisor. */
  readonly pid?: number;
  readonly programs: readonly { readonly name: string; readonly running: boolean; readonly pid?: number }[];
  readonly stateDir: string;
  readonly logDir: string;
  readonly kubeconfig: string;
  /** Of the page, without its token. Absent: it serves none, or not to who asks. */
  readonly page?: string;
  /** Absent: the node does not run, or its API does not answer. */
  readonly objects?: NodeStatusObjects;
}

interface NodeStatusObjects {
  readonly problems: readonly string[];
  readonly nodes: readonly {
    readonly name: string;
    readonly address: string;
    readonly takesVms: boolean;
    readonly cordoned: boolean;
  }[];
  readonly vmis: readonly {
    readonly namespace: string;
    readonly name: string;
    readonly phase: string;
    readonly node?: string;
  }[];
}

export async function readNodeStatus(paths: NodePaths): Promise<NodeStatus> {
  const supervisor = await runningSupervisor(paths);
  const names = ['apiserver', 'virt-controller', ...(await agentPrograms(paths))];
  const page = supervisor && (await pageAddress(paths))?.split('#', 1)[0];
  const objects = supervisor && (await readObjects(paths));
  return {
    kind: 'NodeStatus',
    running: supervisor !== undefined,
    ...(supervisor && { pid: supervisor.pid }),
    programs: await Promise.all(names.map((name) => readProgram(paths, name))),
    stateDir: paths.stateDir,
    logDir: paths.logDir,
    kubeconfig: paths.kubeconfig,
    ...(page !== undefined && { page }),
    ...(objects && { objects }),
  };
}

async function readProgram({ runDir }: NodePaths, name: string): Promise<NodeStatus['programs'][number]> {
  const identity = parseIdentity((await readIfThere(path.join(runDir, `${name}.pid`))) ?? '');
  const running = identity !== undefined && (await isAlive(identity));
  return { name, running, ...(running && { pid: identity.pid }) };
}

/** Lines for a person. */
export function statusLines(status: NodeStatus, paint: Paint = plain): string[] {
  const { running, pid, programs, page, objects } = status;
  const all = [{ name: 'virt-node', running, ...(pid !== undefined && { pid }) }, ...programs];
  const lines = [
    ...all.map((each) => field(each.name, painted(paint, each.running ? `running (pid ${each.pid})` : 'not running'))),
    field('state', status.stateDir),
    field('logs', status.logDir),
    field('KUBECONFIG', status.kubeconfig),
  ];
  if (!running) return lines;
  const shown =
    page === undefined ? 'none, or yours to see only as root' : `${page} (\`virt-node url\` prints it with its token)`;
  return [...lines, field('web page', shown), ...objectLines(objects, paint)];
}

const field = (name: string, text: string) => `${name.padEnd(16)} ${text}`;

function objectLines(objects: NodeStatusObjects | undefined, paint: Paint): string[] {
  if (!objects) return ['the Kubernetes API does not answer'];
  const { problems, nodes, vmis } = objects;
  return [
    ...problems.map((message) => `${paint('PROBLEM'.padEnd(16), 'bad')} ${plainText(message)}`),
    ...nodes.map(memberLine),
    ...vmis.map(({ namespace, name, phase, node }) => {
      // Where there is one node, it is there that a VMI is.
      const where = nodes.length > 1 && node ? ` on ${node}` : '';
      return field(
        'VMI',
        `${plainText(`${namespace}/${name}`)} ${painted(paint, plainText(phase))}${plainText(where)}`,
      );
    }),
  ];
}

function memberLine({ name, address, cordoned, takesVms }: NodeStatusObjects['nodes'][number]): string {
  const takes = takesVms ? 'takes VMs' : 'takes no VMs: its agent is not ready';
  return field('node', `${name} ${address} ${cordoned ? 'cordoned, takes no VMs' : takes}`);
}

/** An agent per node; a single one's has no number. */
async function agentPrograms({ runDir }: NodePaths): Promise<string[]> {
  const files = await readdir(runDir).catch((): string[] => []);
  const indices = files.flatMap((file) => memberIndex(file, 'virt-handler', '.pid') ?? []);
  return [...new Set([1, ...indices])].sort((a, b) => a - b).map((index) => memberName('virt-handler', index));
}

/** Address of the page with its token, of a node that runs. Throws NodeError. */
export async function pageUrl(paths: NodePaths, isReadOnly = false): Promise<string> {
  if (!(await runningSupervisor(paths))) throw new NodeError('NOT_RUNNING', `no node runs on ${paths.stateDir}`);
  const address = await pageAddress(paths, isReadOnly);
  if (address !== undefined) return address;
  throw new NodeError(
    'NOT_FOUND',
    `${isReadOnly ? paths.webViewAddress : paths.webAddress} cannot be read: the node serves no page (--web-port 0), or use sudo`,
  );
}

async function readObjects(paths: NodePaths): Promise<NodeStatusObjects | undefined> {
  try {
    const client = await connectToNode(paths);
    try {
      const nodes = (await client.list<NodeObject>(resources.nodes)).items;
      const { items } = await client.list<VirtualMachineInstance>(resources.virtualMachineInstances);
      const vmis = items.map(({ metadata, status }) => ({
        namespace: metadata.namespace ?? '',
        name: metadata.name,
        phase: status?.phase ?? '',
        ...(status?.nodeName && { node: status.nodeName }),
      }));
      return { problems: await readProblems(client), nodes: nodes.map(memberOf), vmis };
    } finally {
      client.close();
    }
  } catch {
    return undefined;
  }
}

function memberOf({ metadata, spec, status }: NodeObject): NodeStatusObjects['nodes'][number] {
  const cordoned = spec?.unschedulable === true;
  return {
    name: metadata.name,
    address: status?.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '',
    takesVms: !cordoned && metadata.labels?.[labels.schedulable] === 'true',
    cordoned,
  };
}

/** What the API server said about its database within the last hour. */
async function readProblems(client: KubeClient): Promise<string[]> {
  const where = { namespace: 'default', fieldSelector: `reason=${lostWritesReason}` };
  const { items } = await client.list<EventObject>(resources.events, where);
  return items.map(({ message }) => message);
}
