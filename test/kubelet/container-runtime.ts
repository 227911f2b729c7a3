import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { logsDir, Program } from './program.ts';

const socket = '/run/containerd/containerd.sock';

/** What a kubelet may ask for, and no plugin that looks for file systems of its own. */
const config = (dir: string) => `version = 2
disabled_plugins = [${['aufs', 'btrfs', 'devmapper', 'zfs'].map((name) => `"io.containerd.snapshotter.v1.${name}"`)}]
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
# Root of a container may lack the right to lower scores.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "${dir}/cni"
`;

/** Pods have addresses of their own on a bridge; the node's addresses are reached through it. */
const network = {
  cniVersion: '1.0.0',
  name: 'pods',
  plugins: [
    {
      type: 'bridge',
      bridge: 'cni0',
      isGateway: true,
      ipam: { type: 'host-local', ranges: [[{ subnet: '10.85.0.0/24' }]], routes: [{ dst: '0.0.0.0/0' }] },
    },
  ],
};

/** Debian's containerd with runc and CNI plugins, on a machine of its own (scripts/kubelet-machine.sh). */
export class ContainerRuntime {
  static readonly endpoint = `unix://${socket}`;
  readonly #program: Program;

  constructor(dir: string) {
    mkdirSync(path.join(dir, 'cni'), { recursive: true });
    writeFileSync(path.join(dir, 'cni/10-pods.conflist'), JSON.stringify(network));
    const configFile = path.join(dir, 'containerd.toml');
    writeFileSync(configFile, config(dir));
    this.#program = new Program('containerd', ['--config', configFile], path.join(logsDir, 'containerd.log'));
  }

  /** Started, with the images of these archives; `names` are names of one of them. */
  async start(archives: readonly string[], names: readonly string[]): Promise<void> {
    await this.#program.start(() => this.#ctr('version'));
    for (const archive of archives) this.#ctr('images', 'import', archive);
    const [first = '', ...more] = names;
    for (const name of more) this.#ctr('images', 'tag', '--force', first, name);
  }

  stop(): Promise<void> {
    return this.#program.stop();
  }

  #ctr(...args: string[]): string {
    return execFileSync('ctr', ['--namespace', 'k8s.io', ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }
}
