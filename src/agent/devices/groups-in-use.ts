import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import path from 'node:path';
import { errorCode, isRecord, listOf, memberAt } from '../../base/index.ts';
import { isThere } from './sysfs.ts';

export interface GroupsInUseOptions {
  /** Of the kubelet, with its checkpoint. */
  readonly pluginsDir: string;
  /** Directories of this node's pods by UID. */
  readonly podsDir: string;
  /** `/proc`, with all processes of the machine. */
  readonly procDir: string;
}

/** The kubelet writes there what it gave to which pod, before the pod starts. */
const checkpoint = 'kubelet_internal_checkpoint';
const maxCheckpointBytes = 64 * 1024 * 1024;
const vfioFile = /\/vfio\/(\d+|devices\/vfio\d+)$/;

/**
 * IOMMU groups that a pod was given, started or not, or that a process has open; devices that are open by themselves as
 * `devices/vfio3`. Rejects when that cannot be known: then nobody may take one away.
 */
export async function groupsInUse(options: GroupsInUseOptions): Promise<ReadonlySet<string>> {
  const [given, open] = [await givenToPods(options), await openedGroups(options.procDir)];
  return new Set([...given, ...open]);
}

/** Ids of devices of any resource: that one is as well a group's number keeps that group, and harms nobody. */
async function givenToPods({ pluginsDir, podsDir }: GroupsInUseOptions): Promise<string[]> {
  const file = path.join(pluginsDir, checkpoint);
  if (!(await isThere(file))) return [];
  if ((await lstat(file)).size > maxCheckpointBytes) throw new Error(`${file} is too long to be read`);
  const content: unknown = JSON.parse(await readFile(file, 'utf8'));
  const data = memberAt(content, 'Data');
  if (!isRecord(data)) throw new Error(`${file} is not written as this agent knows it`);
  const given: string[] = [];
  // A pod that ended is in there until the kubelet gives devices to another one.
  for (const entry of listOf(memberAt(data, 'PodDeviceEntries'))) {
    const pod = memberAt(entry, 'PodUID');
    if (typeof pod !== 'string' || pod === '' || pod.includes('/')) throw new Error(`${file} names a pod without UID`);
    if (await isThere(path.join(podsDir, pod))) given.push(...idsOf(memberAt(entry, 'DeviceIDs'), file));
  }
  return given;
}

/** By NUMA node, and a plain list before Kubernetes 1.20. */
function idsOf(given: unknown, file: string): readonly string[] {
  const ids = isRecord(given) ? Object.values(given).flatMap(listOf) : listOf(given);
  if (!ids.every((id) => typeof id === 'string')) throw new Error(`${file} is not written as this agent knows it`);
  return ids;
}

async function openedGroups(procDir: string): Promise<string[]> {
  const groups: string[] = [];
  for (const pid of (await readdir(procDir)).filter((name) => /^\d+$/.test(name))) {
    const directory = path.join(procDir, pid, 'fd');
    for (const fd of await readdir(directory).catch(emptyWhenGone)) {
      const target = await readlink(path.join(directory, fd)).catch(() => '');
      const group = vfioFile.exec(target)?.[1];
      if (group !== undefined) groups.push(group);
    }
  }
  return groups;
}

/** A process may end while it is looked at. */
function emptyWhenGone(error: unknown): string[] {
  const code = errorCode(error);
  if (code === 'ENOENT' || code === 'ESRCH') return [];
  throw error;
}
