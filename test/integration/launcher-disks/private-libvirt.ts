import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export interface VirshResult {
  readonly status: number | null;
  readonly output: string;
}

/**
 * libvirt's QEMU driver inside virsh, with everything it owns below a temporary directory: no daemon, nothing shared.
 * It runs in its own PID namespace whose first process reaps: libvirt waits until the processes it probed QEMU with are
 * gone, and not every container's first process reaps. `/dev/kvm` is covered: a device that QEMU's user cannot open makes
 * libvirt probe QEMU again for every single define.
 */
export function withPrivateLibvirt<T>(use: (libvirt: { dir: string; virsh(command: string): VirshResult }) => T): T {
  const dir = mkdtempSync(path.join(tmpdir(), 'domain-xml-'));
  const noKvm = path.join(dir, 'no-kvm');
  writeFileSync(noKvm, '', { mode: 0o000 });
  const script = `[ ! -e /dev/kvm ] || mount --bind ${noKvm} /dev/kvm; virsh -c "qemu:///embed?root=$1" "$2"; exit $?`;
  const virsh = (command: string): VirshResult => {
    const isolated = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
    const args = [...isolated, 'sh', '-c', script, 'sh', path.join(dir, 'root'), command];
    const { status, stdout, stderr } = spawnSync('unshare', args, { encoding: 'utf8', timeout: 60_000 });
    return { status, output: `${stdout}${stderr}` };
  };
  try {
    return use({ dir, virsh });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
