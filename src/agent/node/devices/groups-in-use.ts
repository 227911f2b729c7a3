import { lstat, readdir, readlink } from 'node:fs/promises';
import path from 'node:path';
import { type Clock, errorCode, isRecord, listOf, memberAt } from '../../../base/index.ts';
import { readPlainFile } from '../../../host/index.ts';
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
/** A pod that was given devices waits for its network, its volumes and others' containers before it has a directory. */
const beginsInMs = 600_000;
/** Of one that is open, the name may be gone. */
const vfioFile = /\/vfio\/(\d+|devices\/vfio\d+)(?: \(deleted\))?$/;

/**
 * IOMMU groups that a pod was given, started or not, or that a process has open; devices that are open by themselves as
 * `devices/vfio3`. Rejects when that cannot be known: then none may be taken away. Old as soon as it is there.
 */
export async function groupsInUse(
  options: GroupsInUseOptions,
  clock: Pick<Clock, 'now'>,
): Promise<ReadonlySet<string>> {
  // In this order: who opens one while processes are looked at was given it before.
  const open = await openedGroups(options.procDir);
  return new Set([...open, ...(await givenToPods(options, clock))]);
}

/** Ids of devices of any resource: that one is as well a group's number keeps that group, and does no harm. */
async function givenToPods({ pluginsDir, podsDir }: GroupsInUseOptions, clock: Pick<Clock, 'now'>): Promise<string[]> {
  const file = path.join(pluginsDir, checkpoint);
  if (!(await isThere(file))) return [];
  const ageMs = clock.now().getTime() - (await lstat(file)).mtimeMs;
  const isNew = Math.abs(ageMs) < beginsInMs;
  const content: unknown = JSON.parse(await readPlainFile(file, maxCheckpointBytes));
  const data = memberAt(content, 'Data');
  if (!isRecord(data)) throw new Error(`${file} is not written as this agent knows it`);
  if (!(await isThere(podsDir))) throw new Error(`${podsDir} is not there: whether pods ended cannot be known`);
  const given: string[] = [];
  // A pod that ended is in there until the kubelet gives devices to another one, so that only time tells it from one that begins.
  for (const entry of listOf(memberAt(data, 'PodDeviceEntries'))) {
    const pod = memberAt(entry, 'PodUID');
    if (typeof pod !== 'string' || pod === '' || pod.includes('/')) throw new Error(`${file} names a pod without UID`);
    if (isNew || (await isThere(path.join(podsDir, pod)))) given.push(...idsOf(memberAt(entry, 'DeviceIDs'), file));
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
    for (const fd of await readdir(directory).catch((error: unknown) => whenGone(error, []))) {
      const target = await readlink(path.join(directory, fd)).catch((error: unknown) => whenGone(error, ''));
      const group = vfioFile.exec(target)?.[1];
      if (group !== undefined) groups.push(group);
    }
  }
  return groups;
}

/** A process may end while it is looked at, and close what it has open. */
function whenGone<T>(error: unknown, nothing: T): T {
  const code = errorCode(error);
  if (code === 'ENOENT' || code === 'ESRCH') return nothing;
  throw error;
}
