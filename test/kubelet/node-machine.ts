import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { eventually } from '../fixtures/eventually.ts';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';
import { ClusterNode, type NodeParts } from './cluster-node.ts';
import type { PodNetworks } from './container-runtime.ts';
import { nodeNames } from './place.ts';
import { logsDir, Program } from './program.ts';

/** What scripts/kubelet-parts.mjs made. */
interface KubeletParts extends NodeParts {
  readonly assets: string;
  readonly controller: string;
  readonly launchers: { readonly ours: LauncherParts; readonly upstream?: LauncherParts };
}

/** What launcher pods run. */
export interface LauncherParts {
  readonly image: string;
  /** By which its process is known. */
  readonly program: string;
}

/** How pods are connected, and which launcher VMs run. */
interface MachineOptions {
  readonly podNetworks?: PodNetworks | undefined;
  readonly launcher?: 'ours' | 'upstream' | undefined;
  readonly nodes?: 1 | 2 | undefined;
  /** Of kube-controller-manager, besides those that it needs. */
  readonly managerFlags?: readonly string[] | undefined;
  /** Of virt-controller, likewise. */
  readonly controllerFlags?: readonly string[] | undefined;
}

const [{ name: nodeName, address: nodeAddress }] = nodeNames;

export { nodeName };

const apiFlags = {
  'secure-port': '443',
  'bind-address': '0.0.0.0',
  'advertise-address': nodeAddress,
  'authorization-mode': 'Node,RBAC',
  'enable-admission-plugins': 'NodeRestriction',
  'disable-admission-plugins': '',
  // There is no name service.
  'kubelet-preferred-address-types': 'InternalIP',
};

/** A cluster of one node, or two, with everything real: API server, controllers, scheduler, kubelet, containerd, runc. */
export class NodeMachine {
  readonly api: KubeApiserver;
  readonly nodes: readonly ClusterNode[];
  readonly launcher: LauncherParts;
  readonly #others: readonly { stop(): Promise<void> }[];

  private constructor(
    api: KubeApiserver,
    nodes: readonly ClusterNode[],
    launcher: LauncherParts,
    others: readonly { stop(): Promise<void> }[],
  ) {
    this.api = api;
    this.launcher = launcher;
    this.nodes = nodes;
    this.#others = others;
  }

  /** The API server is empty; `prepare` fills it before there is a node. */
  static async start(
    prepare: (api: KubeApiserver) => void,
    { podNetworks = 'ipv4', launcher: launcherName = 'ours', nodes: count = 1, ...flags }: MachineOptions = {},
  ): Promise<NodeMachine> {
    const { KUBELET_PARTS } = process.env;
    assert.ok(KUBELET_PARTS, 'runs on a machine of its own: node scripts/test.mjs kubelet');
    const parts: KubeletParts = JSON.parse(KUBELET_PARTS);
    const launcher = parts.launchers[launcherName];
    assert.ok(launcher, 'upstream’s launcher is there in the suite `upstream` only');
    const started: { stop(): Promise<void> }[] = [];
    try {
      const nodes: ClusterNode[] = [];
      for (const names of nodeNames.slice(0, count)) {
        const node = await ClusterNode.make(names, parts);
        nodes.push(node);
        started.push(node);
        await node.startRuntime();
      }
      const users = Object.fromEntries(
        nodes.map(({ name }) => [name, { name: `system:node:${name}`, groups: ['system:nodes'] }]),
      );
      const api = await startKubeApiserver(parts.assets, { bare: true, flags: apiFlags, users });
      started.push(api);
      prepare(api);
      for (const program of controllers(parts, launcher, api, flags)) {
        started.push(program);
        await program.start(() => undefined);
      }
      const machine = new NodeMachine(api, nodes, launcher, started);
      for (const node of nodes) await node.join(api, podNetworks);
      return machine;
    } catch (error) {
      for (const one of started.reverse()) await one.stop();
      throw error;
    }
  }

  /** Of the first node. */
  get kubelet(): Program {
    return this.node(nodeName).kubelet;
  }

  /** Of the first node; resolves when it listens for plugins. */
  startKubelet(): Promise<void> {
    return this.node(nodeName).startKubelet();
  }

  node(name: string): ClusterNode {
    const found = this.nodes.find((node) => node.name === name);
    assert.ok(found, `no node ${name}`);
    return found;
  }

  async stop(): Promise<void> {
    for (const { kubelet } of this.nodes) await kubelet.stop();
    for (const node of this.nodes) node.keepLogs();
    for (const one of [...this.#others].reverse()) await one.stop();
  }

  /** A JSON object of the API server. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into objects of every shape
  get(...args: string[]): any {
    return JSON.parse(this.api.kubectl('get', '-o', 'json', ...args));
  }

  create(object: object): void {
    this.api.kubectlStdin(JSON.stringify(object), 'create', '-f', '-');
  }

  /** What the node offers of these resources, as numbers. */
  allocatable(): Record<string, number> {
    const { allocatable } = this.get('node', nodeName).status;
    return Object.fromEntries(
      Object.entries(allocatable).map(([name, count]) => [name, Number(`${count}`.replace(/k$/, '000'))]),
    );
  }

  /** A pod of an ordinary user, without any right, that runs a script once. */
  startPod(name: string, script: string, limits: Readonly<Record<string, number>>): void {
    const container = {
      name: 'main',
      image: 'localhost/tools:1',
      command: ['sh', '-c', script],
      resources: { limits },
    };
    const securityContext = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] }, runAsUser: 107 };
    const spec = {
      restartPolicy: 'Never',
      containers: [{ ...container, securityContext }],
      terminationGracePeriodSeconds: 1,
    };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec };
    this.create(pod);
  }

  /** Its output, when it has ended well. */
  async runPod(name: string, script: string, limits: Readonly<Record<string, number>>): Promise<string> {
    this.startPod(name, script, limits);
    await eventually(() => {
      const { status } = this.get('pod', name);
      assert.equal(status.phase, 'Succeeded', JSON.stringify(status));
    }, 60_000);
    return this.api.kubectl('logs', name);
  }

  /** Of all on this machine, by command line. */
  processesOf(isWanted: (line: string) => boolean): number[] {
    const found = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && isWanted(commandLine(pid)));
    return found.map(Number);
  }

  /** Runs, and always did. */
  untouched(name: string): void {
    const { status } = this.get('pod', name);
    assert.deepEqual([status.phase, status.containerStatuses[0].restartCount], ['Running', 0], JSON.stringify(status));
  }

  /** The pod of the node's agent that is not about to leave, when its containers are ready. */
  // biome-ignore lint/suspicious/noExplicitAny: as above
  async agentPod(timeoutMs = 120_000, node = nodeName): Promise<any> {
    // biome-ignore lint/suspicious/noExplicitAny: as above
    let pod: any;
    await eventually(() => {
      const { items } = this.get('pods', '-n', 'kubevirt', '-l', 'kubevirt.io=virt-handler');
      pod = items.find(({ metadata, spec }: AgentPod) => !metadata.deletionTimestamp && spec.nodeName === node);
      const ready = pod?.status.conditions?.find(({ type }: { type: string }) => type === 'Ready');
      assert.equal(ready?.status, 'True', JSON.stringify(pod?.status));
    }, timeoutMs);
    return pod;
  }
}

interface AgentPod {
  readonly metadata: { readonly deletionTimestamp?: string };
  readonly spec: { readonly nodeName?: string };
}

/** Empty when the process has ended. */
function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

export const isAgent = (line: string) => /virt-handler\0.*--hostname-override\0/.test(line);

function controllers(
  parts: KubeletParts,
  launcher: LauncherParts,
  api: KubeApiserver,
  { managerFlags = [], controllerFlags = [] }: Pick<MachineOptions, 'managerFlags' | 'controllerFlags'>,
): Program[] {
  const common = [`--kubeconfig=${api.adminKubeconfig}`, '--leader-elect=false', '--secure-port=0'];
  const ofManager = [
    `--service-account-private-key-file=${path.join(api.dir, 'service-account.key')}`,
    `--root-ca-file=${path.join(api.dir, 'certs/apiserver.crt')}`,
  ];
  const program = (name: string, args: string[]) =>
    new Program(path.join(parts.programs, name), args, path.join(logsDir, `${name}.log`));
  const launcherImage = `--launcher-image=${launcher.image}`;
  const ofOurs = [`--kubeconfig=${api.adminKubeconfig}`, launcherImage, '--leader-elect=false', ...controllerFlags];
  const log = path.join(logsDir, 'virt-controller.log');
  const virtController = new Program(process.execPath, [parts.controller, ...ofOurs], log);
  return [
    program('kube-controller-manager', [...common, ...ofManager, ...managerFlags]),
    program('kube-scheduler', common),
    virtController,
  ];
}
