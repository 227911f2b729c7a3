import { mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { NodeNames, Place } from './place.ts';
import { logOf, Program } from './program.ts';

const socket = '/run/containerd/containerd.sock';

/** What a kubelet may ask for, and no plugin that looks for file systems of its own. */
const config = (dir: string) => `version = 2
disabled_plugins = [${['aufs', 'btrfs', 'devmapper', 'zfs'].map((name) => `"io.containerd.snapshotter.v1.${name}"`)}]
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
# Root of a container may lack the right to lower scores.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "${dir}/cni-bin"
conf_dir = "${dir}/cni"
`;

const plugins = '/usr/lib/cni';

const familiesOf = ({ podSubnet }: NodeNames) => ({
  ipv4: { ranges: [[{ subnet: podSubnet }]], routes: [{ dst: '0.0.0.0/0' }] },
  ipv6: { ranges: [[{ subnet: 'fd00:85::/64' }]], routes: [{ dst: '::/0' }] },
});

/**
 * What pods are connected to: addresses of IPv4; or of both families, and by Multus what their annotations ask for.
 * Multus is the real one, which reads pods and NetworkAttachmentDefinitions of the API server.
 */
export type PodNetworks = 'ipv4' | 'multus';

/** Pods have addresses of their own on a bridge; the node's addresses are reached through it. */
function bridged({ ranges, routes }: ReturnType<typeof familiesOf>['ipv4']): object {
  const ipam = { type: 'host-local', ranges, routes };
  return {
    cniVersion: '1.0.0',
    name: 'pods',
    plugins: [{ type: 'bridge', bridge: 'cni0', isGateway: true, ipam }],
  };
}

/** Debian's containerd with runc and CNI plugins, on a machine of its own (scripts/kubelet-machine.sh). */
export class ContainerRuntime {
  static readonly endpoint = `unix://${socket}`;
  readonly #program: Program;
  readonly #dir: string;
  readonly #place: Place;

  constructor(place: Place) {
    const { dir } = place;
    this.#dir = dir;
    this.#place = place;
    for (const name of ['cni', 'cni-bin']) mkdirSync(path.join(dir, name), { recursive: true });
    for (const name of readdirSync(plugins)) symlinkSync(path.join(plugins, name), path.join(dir, 'cni-bin', name));
    const configFile = path.join(dir, 'containerd.toml');
    writeFileSync(configFile, config(dir));
    this.#program = new Program('containerd', ['--config', configFile], logOf(place, 'containerd'), place);
  }

  /** Started, with the images of these archives; `names` are names of one of them. */
  async start(archives: readonly string[], names: readonly string[]): Promise<void> {
    await this.#program.start(() => this.#ctr('version'));
    for (const archive of archives) this.#ctr('images', 'import', archive);
    const [first = '', ...more] = names;
    for (const name of more) this.#ctr('images', 'tag', '--force', first, name);
  }

  /** Before there is a pod. `program`: Multus, which asks the API server. */
  connectPods(node: NodeNames, networks: PodNetworks, program: string, kubeconfig: string): void {
    const { ipv4, ipv6 } = familiesOf(node);
    if (networks === 'ipv4') {
      this.#configure('10-pods.conflist', bridged(ipv4));
      return;
    }
    const both = { ranges: [...ipv4.ranges, ...ipv6.ranges], routes: [...ipv4.routes, ...ipv6.routes] };
    const binDir = path.join(this.#dir, 'cni-bin');
    symlinkSync(program, path.join(binDir, 'multus'));
    const multus = { cniVersion: '1.0.0', name: 'multus', type: 'multus', kubeconfig, binDir };
    this.#configure('00-multus.conf', { ...multus, delegates: [bridged(both)] });
  }

  /** Put in place whole: containerd reads it as soon as it is there. */
  #configure(name: string, content: object): void {
    const file = path.join(this.#dir, 'cni', name);
    writeFileSync(`${file}.new`, JSON.stringify(content));
    renameSync(`${file}.new`, file);
  }

  stop(): Promise<void> {
    return this.#program.stop();
  }

  #ctr(...args: string[]): string {
    return this.#place.run('ctr', '--namespace', 'k8s.io', ...args);
  }
}
