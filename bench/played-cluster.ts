import path from 'node:path';
import { resources } from '../src/api/index.ts';
import { ensureKubevirtCertificates } from '../src/certificates/index.ts';
import { endProgram, ProgramDir, type RunningProgram } from '../test/fixtures/controller/program.ts';
import { LauncherFleet } from '../test/fixtures/scripted-launcher-fleet.ts';
import { type AgentProgram, AgentUnderTest } from './agent-under-test.ts';
import { type ApiKind, type ApiUnderLoad, startApi } from './api-under-load.ts';
import { PlayedKubelets } from './played-kubelets.ts';

export interface PlayedClusterOptions {
  readonly dir: string;
  readonly api: ApiKind | undefined;
  readonly program: AgentProgram;
  readonly nodes: number;
  readonly memoryBytes: number;
}

export interface PlayedNode {
  readonly name: string;
  readonly podsDir: string;
  readonly agent: AgentUnderTest;
  readonly fleet: LauncherFleet;
}

/** As `kubectl drain` does it where no webhook answers evictions. */
const drainTaint = { key: 'kubevirt.io/drain', effect: 'NoSchedule' };
const firstPort = 28_185;

/**
 * A cluster on this machine: an API server, virt-controller as a program, and nodes, each with an agent as a program in namespaces of its
 * own and a fleet of scripted launchers. All of KubeVirt is real but what is in the pods. Needs root.
 */
export class PlayedCluster {
  readonly api: ApiUnderLoad;
  readonly nodes: readonly PlayedNode[];
  readonly kubelets: PlayedKubelets;
  readonly controller: RunningProgram;
  readonly #programs: ProgramDir;

  private constructor(
    api: ApiUnderLoad,
    nodes: readonly PlayedNode[],
    kubelets: PlayedKubelets,
    { programs, controller }: { readonly programs: ProgramDir; readonly controller: RunningProgram },
  ) {
    this.api = api;
    this.nodes = nodes;
    this.kubelets = kubelets;
    this.controller = controller;
    this.#programs = programs;
  }

  static async start(options: PlayedClusterOptions): Promise<PlayedCluster> {
    const { dir, memoryBytes } = options;
    const names = Array.from({ length: options.nodes }, (_, at) => `node${at + 1}`);
    const api = await startApi(options.api, dir, ...names);
    const [nodes, programs] = [[] as PlayedNode[], await ProgramDir.make()];
    try {
      await prepare(api, dir);
      for (const [at, name] of names.entries()) nodes.push(await startNode(api, options, { at, name }));
      const kubelets = new PlayedKubelets({ nodes, memoryBytes }, api.admin);
      await kubelets.start();
      const controller = programs.start('virt-controller', [
        ...['--kubeconfig', api.controllerKubeconfig(), '--port', '0', '-v', '2'],
      ]);
      return new PlayedCluster(api, nodes, kubelets, { programs, controller });
    } catch (error) {
      for (const node of nodes) await disposeNode(node);
      programs.dispose();
      await api.stop();
      throw error;
    }
  }

  node(name: string | undefined): PlayedNode {
    const found = this.nodes.find((each) => each.name === name);
    if (!found) throw new Error(`no node ${name}`);
    return found;
  }

  /** New pods go to these nodes only. */
  async scheduleOnto(...names: readonly string[]): Promise<void> {
    for (const { name } of this.nodes) {
      const spec = { unschedulable: names.includes(name) ? null : true };
      await this.api.admin.patch(resources.nodes, { name }, { spec }, 'merge');
    }
  }

  async drain(name: string): Promise<void> {
    const spec = { unschedulable: true, taints: [drainTaint] };
    await this.api.admin.patch(resources.nodes, { name }, { spec }, 'merge');
  }

  async stop(): Promise<void> {
    await this.kubelets.stop();
    if (this.controller.exitCode === null) await endProgram(this.controller, 'SIGTERM');
    this.#programs.dispose();
    for (const { agent } of this.nodes) await agent.stop();
    for (const node of this.nodes) await disposeNode(node);
    await this.api.stop();
  }
}

/** What an operator makes. */
async function prepare({ admin }: ApiUnderLoad, dir: string): Promise<void> {
  const { caBundle } = await ensureKubevirtCertificates(path.join(dir, 'certificates'));
  await admin.create(resources.configMaps, {
    ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'kubevirt-ca', namespace: 'kubevirt' } },
    data: { 'ca-bundle': caBundle },
  } as never);
  await admin.create(resources.kubevirts, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt', namespace: 'kubevirt' } },
    spec: { configuration: { developerConfiguration: { useEmulation: true } } },
  } as never);
  const target = { namespace: 'kubevirt', name: 'kubevirt' };
  const status = { status: { phase: 'Deployed' } };
  await admin.patch(resources.kubevirts, target, status, 'merge', { subresource: 'status' });
}

async function startNode(
  { admin, handlerKubeconfig, kind }: ApiUnderLoad,
  { dir, program }: PlayedClusterOptions,
  { at, name }: { readonly at: number; readonly name: string },
): Promise<PlayedNode> {
  const { server, client } = await ensureKubevirtCertificates(path.join(dir, 'certificates'));
  // Whatever a new node has for taints goes: no node controller of Kubernetes runs here.
  const own = { labels: { 'kubernetes.io/hostname': name, 'kubernetes.io/arch': 'amd64' } };
  await admin.patch(resources.nodes, { name }, { metadata: own, spec: { taints: null } }, 'merge');
  const status = { allocatable: { memory: '1Ti', cpu: '1000', pods: '1000' } };
  await admin.patch(resources.nodes, { name }, { status }, 'merge', { subresource: 'status' });
  const agent = new AgentUnderTest(program, {
    ...{ dir: path.join(dir, name), nodeName: name, kubeconfig: handlerKubeconfig, admin, server, client },
    ...{ asServiceAccount: kind === 'cluster', firstPort: firstPort + 3 * at },
  });
  const fleet = await LauncherFleet.start(agent.podsDir);
  const node = { name, podsDir: agent.podsDir, agent, fleet };
  try {
    await agent.start();
    return node;
  } catch (error) {
    await disposeNode(node);
    throw error;
  }
}

async function disposeNode({ agent, fleet }: PlayedNode): Promise<void> {
  await agent.dispose();
  await fleet.stop();
}
