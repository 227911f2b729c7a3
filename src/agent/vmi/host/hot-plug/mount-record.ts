import { errorCode, errorMessage, listOf, memberAt } from '../../../../base/index.ts';
import type { RecordFiles } from '../../../../host/index.ts';
import { HostError } from '../errors.ts';

/** One node, mounted file or mounted directory in the directory of hot-plugged disks of a launcher's pod. */
export interface PluggedEntry {
  readonly podUid: string;
  /** `data` for a device node or a directory, `data.img` for an image. */
  readonly name: string;
}

/** Of a pod's directory. */
export const hotPlugDirectory = 'volumes/kubernetes.io~empty-dir/hotplug-disks';

const maxRecordBytes = 256 * 1024;
const maxEntries = 1024;
const targetPattern = /\/([^/]+)\/volumes\/kubernetes\.io~empty-dir\/hotplug-disks\/([^/]+)$/;
/** In a record that was torn by upstream, which rewrites it in place. */
const tornTarget = /"targetFile"\s*:\s*"([^"\\]+)"/g;

/**
 * Upstream's record of what is plugged into a launcher (pkg/virt-handler/hotplug-disk/mount.go), a file per UID of a VMI, so that
 * either agent cleans up what the other one plugged. What is on disk counts: of two agents that overlap, neither works from what
 * it remembers.
 */
export class PlugRecords {
  readonly #files: RecordFiles;
  readonly #machinePodsDir: string;

  /** `machinePodsDir`: where the pods are for the machine, in the paths that upstream writes. */
  constructor(files: RecordFiles, machinePodsDir: string) {
    this.#files = files;
    this.#machinePodsDir = machinePodsDir;
  }

  /** Empty when there is none. Rejects with MOUNT_RECORD when the disk does not give it. */
  async read(uid: string): Promise<readonly PluggedEntry[]> {
    try {
      return decodePlugRecord(await this.#files.read(uid, maxRecordBytes));
    } catch (cause) {
      if (errorCode(cause) === 'ENOENT') return [];
      throw problem(uid, 'cannot be read', cause);
    }
  }

  /** On disk when it resolves; without entries there is no file. Rejects with MOUNT_RECORD. */
  async write(uid: string, entries: readonly PluggedEntry[]): Promise<void> {
    try {
      if (entries.length === 0) {
        await this.#files.remove(uid);
        return;
      }
      // The directory is made by the look into it.
      await this.#files.list();
      await this.#files.replace(uid, encodePlugRecord(entries, this.#machinePodsDir));
    } catch (cause) {
      throw problem(uid, entries.length === 0 ? 'cannot be removed' : 'cannot be written', cause);
    }
  }
}

export function encodePlugRecord(entries: readonly PluggedEntry[], machinePodsDir: string): string {
  const mountTargetEntries = entries.map(({ podUid, name }) => ({
    targetFile: `${machinePodsDir}/${podUid}/${hotPlugDirectory}/${name}`,
  }));
  return JSON.stringify({ mountTargetEntries, usesSafePaths: true });
}

/** Where the pods' directory was when it was written does not matter; a path that is not of one is left alone. */
export function decodePlugRecord(text: string): PluggedEntry[] {
  const found = targetsOf(text).flatMap((target) => {
    const [, podUid, name] = targetPattern.exec(target) ?? [];
    return podUid && name && isName(podUid) && isName(name) ? [{ podUid, name }] : [];
  });
  return [...new Map(found.map((entry) => [`${entry.podUid}/${entry.name}`, entry])).values()].slice(0, maxEntries);
}

function targetsOf(text: string): string[] {
  let record: unknown;
  try {
    record = JSON.parse(text);
  } catch {
    return [...text.matchAll(tornTarget)].flatMap(([, target]) => target ?? []);
  }
  return listOf(memberAt(record, 'mountTargetEntries')).flatMap((entry) => {
    const target = memberAt(entry, 'targetFile');
    return typeof target === 'string' ? target : [];
  });
}

function isName(text: string): boolean {
  return text !== '.' && text !== '..' && !text.includes('\0');
}

function problem(uid: string, what: string, cause: unknown): HostError {
  const advice = 'check the private directory of this agent, and whether it has room';
  const text = `the record of hot-plugged volumes of VMI ${uid} ${what} (${errorMessage(cause)}): ${advice}`;
  return new HostError('MOUNT_RECORD', text, { cause });
}
