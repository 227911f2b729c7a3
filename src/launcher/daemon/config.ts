import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { errorMessage } from '../../base/index.ts';
import { LauncherError } from '../errors.ts';
import type { QemuUser } from './pod.ts';
import type { LibvirtPaths } from './pod-paths.ts';

export interface DaemonConfigOptions {
  readonly paths: LibvirtPaths;
  /** Given by a root launcher: the user QEMU runs as. */
  readonly qemuUser?: QemuUser;
  /**
   * Another one for each pod: a daemon refuses a live migration to one that says the same, as two pods of one machine, or of two
   * machines with one SMBIOS UUID, would.
   */
  readonly hostUuid: string;
  /** Literal `log_filters`. */
  readonly logFilters?: string;
  readonly hugepages: boolean;
  readonly virtiofsdDebug?: boolean;
  readonly sharedFilesystems?: readonly string[];
}

/** First line of every file written here. */
const mark = '# Written by virt-launcher for this pod.';

/**
 * `qemu.conf`, with upstream's settings where they apply. No virtlogd: libvirt itself writes QEMU's logs, and they survive its
 * restart.
 */
export function qemuConf(options: DaemonConfigOptions): string {
  const { qemuUser, sharedFilesystems = [] } = options;
  const lines = [
    mark,
    'stdio_handler = "file"',
    'vnc_listen = "0.0.0.0"',
    'vnc_tls = 0',
    'vnc_sasl = 0',
    'security_driver = "none"',
    'dynamic_ownership = 1',
    'remember_owner = 0',
    'namespaces = [ ]',
    'cgroup_controllers = [ ]',
    'max_core = 0',
  ];
  if (qemuUser) lines.push(`user = "+${qemuUser.uid}"`, `group = "+${qemuUser.gid}"`);
  if (options.hugepages) lines.push('hugetlbfs_mount = "/dev/hugepages"');
  if (options.virtiofsdDebug) lines.push('virtiofsd_debug = 1');
  if (sharedFilesystems.length > 0) {
    lines.push(`shared_filesystems = [ ${sharedFilesystems.map(quote).join(', ')} ]`);
  }
  return `${lines.join('\n')}\n`;
}

/** The daemon's own configuration; the same keys serve virtqemud and libvirtd. */
export function daemonConf(options: Pick<DaemonConfigOptions, 'hostUuid' | 'logFilters'>): string {
  const lines = [
    mark,
    `host_uuid = ${quote(options.hostUuid)}`,
    'auth_unix_rw = "none"',
    'auth_unix_ro = "none"',
    'unix_sock_rw_perms = "0700"',
    'unix_sock_ro_perms = "0700"',
    `log_outputs = "${options.logFilters ? 1 : 3}:stderr"`,
  ];
  if (options.logFilters) lines.push(`log_filters = ${quote(options.logFilters)}`);
  return `${lines.join('\n')}\n`;
}

/** Writes both files; answers the path of the daemon's. Throws SETUP_FAILED. */
export async function writeDaemonConfig(options: DaemonConfigOptions): Promise<string> {
  const { runDir, qemuConfFile } = options.paths;
  const daemonFile = path.join(runDir, 'virt-launcher-daemon.conf');
  try {
    await mkdir(path.dirname(qemuConfFile), { recursive: true });
    await mkdir(runDir, { recursive: true });
    await writeIfDifferent(qemuConfFile, qemuConf(options), 0o600);
    await writeIfDifferent(daemonFile, daemonConf(options), 0o644);
  } catch (cause) {
    throw new LauncherError('SETUP_FAILED', `libvirt configuration cannot be written: ${errorMessage(cause)}`, {
      cause,
    });
  }
  return daemonFile;
}

async function writeIfDifferent(file: string, content: string, mode: number): Promise<void> {
  const present = await readFile(file, 'utf8').catch(() => undefined);
  if (present !== content) await writeFile(file, content, { mode });
}

function quote(value: string): string {
  return `"${value.replaceAll(/[\\"\n]/g, '')}"`;
}
