import { type ChildProcess, spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { stopped } from '../fixtures/agent-process.ts';
import { KubeletStandIn } from '../fixtures/kubelet-stand-in.ts';
import type { NodeProgram } from '../fixtures/migration-node.ts';

/** Its container: the file system of the programs, with the machine's processes and devices, and the folders of a temporary node. */
const container = `
set -eu
mount -t tmpfs tmpfs /mnt
mkdir /mnt/changes /mnt/work /mnt/root
mount -t overlay -o "lowerdir=$ROOT,upperdir=/mnt/changes,workdir=/mnt/work" overlay /mnt/root
cd /mnt/root
for place in /proc /sys /dev; do mount --rbind "$place" ".$place"; done
mount -t tmpfs tmpfs run
[ -h var/run ] || { rm -r var/run; ln -s ../run var/run; }
mkdir -p pods run/kubevirt var/lib/kubelet var/lib/kubevirt-node-labeller ".$DIR" ".$CERTIFICATES"
mount --rbind "$DIR" ".$DIR"
mount --rbind "$CERTIFICATES" ".$CERTIFICATES"
mount --rbind "$DIR/pods" pods
mount --rbind "$DIR/kubelet" var/lib/kubelet
cp "$CAPABILITIES"/* var/lib/kubevirt-node-labeller/
cp "$PROGRAMS"/virt-* usr/bin/
echo qemu:x:107:107::/:/bin/sh >>etc/passwd
echo qemu:x:107: >>etc/group
exec chroot . /usr/bin/virt-handler "$@"
`;

/** What libvirt said of a real machine; the labels that upstream's agent would make of it are not wanted. */
const capabilities = path.resolve('test/unit/agent/node/labels/hosts/real-nested-kvm');

/** Upstream's virt-handler as a process of its own, on the directories of a temporary node. Needs root. */
export class UpstreamAgentProgram implements NodeProgram {
  readonly nodeName: string;
  readonly dir = mkdtempSync(path.join(tmpdir(), 'upstream-'));
  readonly podsDir = path.join(this.dir, 'pods');
  readonly privateDir = path.join(this.dir, 'private');
  readonly #parts: UpstreamParts;
  readonly #kubeconfig = path.join(this.dir, 'kubeconfig');
  /** It takes no VMs before a kubelet knows its devices. */
  readonly #kubelet: KubeletStandIn;
  readonly #logFile = path.join(this.dir, 'log');
  readonly #running = new Set<ChildProcess>();

  private constructor(nodeName: string, parts: UpstreamParts) {
    this.nodeName = nodeName;
    this.#parts = parts;
    for (const name of ['pods', 'private', 'kubelet/device-plugins'])
      mkdirSync(path.join(this.dir, name), { recursive: true });
    this.#kubelet = new KubeletStandIn(path.join(this.dir, 'kubelet/device-plugins'));
  }

  /** `kubeconfig`: of its account, with HTTPS: its client gives its token to nobody else. */
  static async make(nodeName: string, kubeconfig: string, parts: UpstreamParts): Promise<UpstreamAgentProgram> {
    const program = new UpstreamAgentProgram(nodeName, parts);
    copyFileSync(kubeconfig, program.#kubeconfig);
    await program.#kubelet.start();
    return program;
  }

  /** `flags`: of ours; upstream's agent knows all but one of them. */
  start(_kubeconfig: string, flags: readonly string[]): ChildProcess {
    const log = openSync(this.#logFile, 'a');
    const pair = path.dirname(flags[flags.indexOf('--tls-cert-file') + 1] ?? '');
    const args = [
      ...['--kubeconfig', this.#kubeconfig, '--hostname-override', this.nodeName, '--pod-ip-address', '127.0.0.1'],
      ...['--kubevirt-private-dir', this.privateDir],
      ...['--kubelet-pods-dir', this.podsDir, '--kubelet-root', path.join(this.dir, 'kubelet')],
      ...['--listen', '127.0.0.1', '--console-server-port', '0', '--port', '0', '--vmstats-server-port', '0'],
      ...['--enable-node-labeller=false', '-v', '3'],
      ...['--vsock-client-cert-file', `${pair}/tls.crt`, '--vsock-client-key-file', `${pair}/tls.key`],
      ...flags.filter((flag) => flag !== '--live-migration'),
    ];
    const child = spawn('unshare', ['--mount', '--propagation', 'private', 'bash', '-c', container, 'bash', ...args], {
      env: {
        PATH: process.env.PATH,
        ROOT: this.#parts.root,
        PROGRAMS: this.#parts.programs,
        DIR: this.dir,
        CERTIFICATES: path.dirname(pair),
        CAPABILITIES: capabilities,
      },
      stdio: ['ignore', log, log],
    });
    this.#running.add(child);
    child.once('exit', () => this.#running.delete(child));
    return child;
  }

  log(): string {
    return existsSync(this.#logFile) ? readFileSync(this.#logFile, 'utf8') : '';
  }

  async stopAll(): Promise<void> {
    for (const child of this.#running) await stopped(child, 'SIGKILL');
  }

  async dispose(): Promise<void> {
    await this.stopAll();
    await this.#kubelet.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Of `scripts/upstream-parts.mjs`. */
export interface UpstreamParts {
  /** A file system with what the programs load. */
  readonly root: string;
  /** Folder of virt-handler and virt-chroot. */
  readonly programs: string;
}
