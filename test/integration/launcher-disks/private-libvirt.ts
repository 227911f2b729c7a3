import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export interface VirshResult {
  readonly status: number | null;
  readonly output: string;
}

export interface PrivateLibvirt {
  readonly dir: string;
  /** Runs virsh commands, separated by `;`. */
  virsh(commands: string): VirshResult;
  /** virsh that reads commands from its standard input; its guests end with it. */
  interactive(): ChildProcessWithoutNullStreams;
  remove(): void;
}

/**
 * libvirt's QEMU driver inside virsh, with everything it owns below a temporary directory: no daemon, nothing shared.
 * It runs in its own PID namespace whose first process reaps: libvirt waits until the processes it probed QEMU with are
 * gone, and not every container's first process reaps. `/dev/kvm` is covered: a device that QEMU's user cannot open makes
 * libvirt probe QEMU again for every single define.
 */
export function privateLibvirt(): PrivateLibvirt {
  const dir = mkdtempSync(path.join(tmpdir(), 'virsh-'));
  // QEMU's user must get through.
  chmodSync(dir, 0o755);
  const noKvm = path.join(dir, 'no-kvm');
  writeFileSync(noKvm, '', { mode: 0o000 });
  mkdirSync(path.join(dir, 'root/etc'), { recursive: true });
  // No virtlogd here: QEMU writes its logs itself. The rest is as in a launcher pod.
  const settings = ['stdio_handler = "file"', 'namespaces = [ ]', 'cgroup_controllers = [ ]', 'remember_owner = 0'];
  writeFileSync(path.join(dir, 'root/etc/qemu.conf'), `${settings.join('\n')}\n`);
  const uri = `qemu:///embed?root=${path.join(dir, 'root')}`;
  const script = `[ ! -e /dev/kvm ] || mount --bind ${noKvm} /dev/kvm; virsh -c "${uri}" "$@"; exit $?`;
  const isolated = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', '-c', script, 'sh'];
  return {
    dir,
    virsh(commands) {
      const options = { encoding: 'utf8', timeout: 60_000 } as const;
      const { status, stdout, stderr } = spawnSync('unshare', [...isolated, commands], options);
      return { status, output: `${stdout}${stderr}` };
    },
    interactive: () => spawn('unshare', isolated, { stdio: 'pipe' }),
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}
