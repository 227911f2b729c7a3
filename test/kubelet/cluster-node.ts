import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { KubeApiserver } from '../fixtures/kube-apiserver.ts';
import { ContainerRuntime, type PodNetworks } from './container-runtime.ts';
import { type NodeNames, nodeNames, Place } from './place.ts';
import { logOf, logsDir, Program } from './program.ts';

/** What a node is made of. */
export interface NodeParts {
  readonly programs: string;
  readonly multus: string;
  readonly archives: readonly string[];
  readonly toolsImages: readonly string[];
}

const kubeletSocket = '/var/lib/kubelet/device-plugins/kubelet.sock';

function kubeletConfig({ dir, cgroupRoot }: Place) {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
    authorization: { mode: 'AlwaysAllow' },
    cgroupDriver: 'cgroupfs',
    cgroupRoot,
    containerRuntimeEndpoint: ContainerRuntime.endpoint,
    // With a policy, the kubelet keeps the file that the agent reads for the label `cpumanager`.
    cpuManagerPolicy: 'static',
    systemReserved: { cpu: '500m' },
    evictionHard: { 'memory.available': '0%', 'nodefs.available': '0%', 'imagefs.available': '0%' },
    // Of a disk that is fuller it takes away what no container has at the moment, and no test can pull an image again.
    imageGCHighThresholdPercent: 100,
    failSwapOn: false,
    failCgroupV1: false,
    makeIPTablesUtilChains: false,
    resolvConf: '',
    clusterDNS: ['10.96.0.10'],
    // Secrets that change are seen within seconds rather than a minute.
    syncFrequency: '5s',
    nodeStatusUpdateFrequency: '5s',
    volumePluginDir: path.join(dir, 'volume-plugins'),
    registerNode: true,
  };
}

/** A kubelet with containerd and runc. The first one is on the machine that this test was started on, others each on one of their own within it. */
export class ClusterNode {
  readonly name: string;
  readonly place: Place;
  readonly #names: NodeNames;
  readonly #parts: NodeParts;
  readonly #runtime: ContainerRuntime;
  #kubelet: Program | undefined;
  #isLost = false;

  private constructor(names: NodeNames, parts: NodeParts, place: Place) {
    this.name = names.name;
    this.place = place;
    this.#names = names;
    this.#parts = parts;
    this.#runtime = new ContainerRuntime(place);
  }

  static async make(names: NodeNames, parts: NodeParts): Promise<ClusterNode> {
    const here = Place.here();
    return new ClusterNode(names, parts, names === nodeNames[0] ? here : await Place.within(here, names));
  }

  get kubelet(): Program {
    assert.ok(this.#kubelet, `${this.name} has not joined a cluster`);
    return this.#kubelet;
  }

  startRuntime(): Promise<void> {
    const { archives, toolsImages } = this.#parts;
    return this.#runtime.start(archives, toolsImages);
  }

  /** Resolves when its kubelet listens for plugins. */
  async join(api: KubeApiserver, podNetworks: PodNetworks): Promise<void> {
    this.#runtime.connectPods(this.#names, podNetworks, this.#parts.multus, api.adminKubeconfig);
    const { dir } = this.place;
    mkdirSync(path.join(dir, 'volume-plugins'), { recursive: true });
    const configFile = path.join(dir, 'kubelet.json');
    writeFileSync(configFile, JSON.stringify(kubeletConfig(this.place)));
    const args = [
      `--config=${configFile}`,
      `--kubeconfig=${api.kubeconfigFor(this.name, nodeNames[0].address)}`,
      `--hostname-override=${this.name}`,
      `--node-ip=${this.#names.address}`,
    ];
    const program = path.join(this.#parts.programs, 'kubelet');
    this.#kubelet = new Program(program, args, logOf(this.place, 'kubelet'), this.place);
    await this.startKubelet();
  }

  /** Resolves when it listens for plugins. */
  async startKubelet(): Promise<void> {
    const socket = this.place.file(kubeletSocket);
    // One that an earlier kubelet left says nothing; this one would remove it, too.
    rmSync(socket, { force: true });
    await this.kubelet.start(() => assert.ok(existsSync(socket), 'the kubelet does not listen yet'));
  }

  /** Of its pods, for who looks for a reason; those of a node that is lost were kept then. */
  keepLogs(): void {
    if (this.#isLost) return;
    const kept = path.join(logsDir, 'pods', this.place.isHere ? '' : this.name);
    cpSync(this.place.file('/var/log/pods'), kept, { recursive: true });
  }

  /** As by a failure of its power: kubelet, agent, guests and all else end at once, and nobody is told. Not the first node. */
  async lose(): Promise<void> {
    this.keepLogs();
    this.#isLost = true;
    await this.place.stop();
  }

  async stop(): Promise<void> {
    await this.#kubelet?.stop();
    await this.#runtime.stop();
    await this.place.stop();
  }
}
