import { errorCode, errorMessage, isRecord, listOf } from '../../../../base/index.ts';
import type { RecordFiles } from '../../../../host/index.ts';
import { HostError } from '../errors.ts';

/** One mount, or with `kernel-boot` a directory of mounts, in the directory of container disks of a pod. */
export interface MountEntry {
  readonly podUid: string;
  /** `disk_0.img`, `kernel-boot`. */
  readonly target: string;
  /** `disk_0.sock`, `kernel-boot.sock`. */
  readonly socket: string;
}

export interface RecordPaths {
  /** Where the pods are for this agent. */
  readonly podsDir: string;
  /** Where they are for the machine. */
  readonly machinePodsDir: string;
}

/** Of a pod's directory. */
export const containerDisksDirectory = 'volumes/kubernetes.io~empty-dir/container-disks';

const maxRecordBytes = 256 * 1024;
const maxEntries = 256;
/** UIDs come from the API server; one that could name another file has no record. */
const uidPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const targetPattern = /\/([^/]+)\/volumes\/kubernetes\.io~empty-dir\/container-disks\/(disk_\d+\.img|kernel-boot)$/;
const tornTarget = /"targetFile"\s*:\s*"([^"\\]+)"/g;

/**
 * Upstream's record of what is mounted for a VMI (pkg/virt-handler/container-disk/mount.go), a file per UID: either agent cleans up
 * what the other one mounted. Upstream rewrites it in place and can then neither mount nor clean up after a crash; this one is
 * replaced as a whole, and of a torn one all targets that can be read count.
 */
export class MountRecords {
  readonly #files: RecordFiles;
  readonly #paths: RecordPaths;

  constructor(files: RecordFiles, paths: RecordPaths) {
    this.#files = files;
    this.#paths = paths;
  }

  /** Undefined: there is none. Rejects with MOUNT_RECORD when the disk does not give it. */
  async read(uid: string): Promise<readonly MountEntry[] | undefined> {
    if (!uidPattern.test(uid)) return undefined;
    try {
      return decodeMountRecord(await this.#files.read(uid, maxRecordBytes));
    } catch (cause) {
      if (errorCode(cause) === 'ENOENT') return undefined;
      throw problem(uid, 'cannot be read', cause);
    }
  }

  /** On disk when it resolves, unless it is there already. Rejects with MOUNT_RECORD. */
  async write(uid: string, entries: readonly MountEntry[]): Promise<void> {
    if (!uidPattern.test(uid)) throw problem(uid, 'cannot be written', 'it is no UID that a file can have');
    try {
      // The directory is made by the look into it.
      await this.#files.list();
      const text = encodeMountRecord(entries, this.#paths);
      const before = await this.#files.read(uid, maxRecordBytes).catch(() => undefined);
      if (before !== text) await this.#files.replace(uid, text);
    } catch (cause) {
      throw problem(uid, 'cannot be written', cause);
    }
  }

  /** Safe when there is none. */
  async remove(uid: string): Promise<void> {
    if (!uidPattern.test(uid)) return;
    await this.#files.remove(uid).catch((cause: unknown) => {
      throw problem(uid, 'cannot be removed', cause);
    });
  }
}

export function encodeMountRecord(entries: readonly MountEntry[], { podsDir, machinePodsDir }: RecordPaths): string {
  const mountTargetEntries = entries.map(({ podUid, target, socket }) => ({
    targetFile: `${machinePodsDir}/${podUid}/${containerDisksDirectory}/${target}`,
    socketFile: `${podsDir}/${podUid}/${containerDisksDirectory}/${socket}`,
  }));
  return JSON.stringify({ mountTargetEntries, usesSafePaths: true });
}

/** Where the pods' directory was when it was written does not matter; a path that is not of one is left alone. */
export function decodeMountRecord(text: string): MountEntry[] {
  const targets = targetsOf(text).flatMap((target) => {
    const [, podUid, name] = targetPattern.exec(target) ?? [];
    return podUid && name ? [{ podUid, target: name, socket: socketOf(name) }] : [];
  });
  const unique = new Map(targets.map((entry) => [`${entry.podUid}/${entry.target}`, entry]));
  return [...unique.values()].slice(0, maxEntries);
}

export function socketOf(target: string): string {
  return `${target.replace(/\.img$/, '')}.sock`;
}

function targetsOf(text: string): string[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return [...text.matchAll(tornTarget)].flatMap(([, target]) => target ?? []);
  }
  const entries = isRecord(value) ? listOf(value.mountTargetEntries) : [];
  return entries.flatMap((entry) => (isRecord(entry) && typeof entry.targetFile === 'string' ? entry.targetFile : []));
}

function problem(uid: string, what: string, cause: unknown): HostError {
  const advice = 'check the private directory of this agent, and whether it has room';
  const text = `the record of what is mounted for VMI ${uid} ${what} (${errorMessage(cause)}): ${advice}`;
  return new HostError('MOUNT_RECORD', text, { cause });
}
