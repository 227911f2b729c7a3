import type { HotPlugKind } from '../../../../api/index.ts';
import { errorCode } from '../../../../base/index.ts';
import {
  type BlockDevice,
  type deviceNodeMaker,
  type HostMounts,
  isSameFile,
  type ProcessId,
  qemuId,
  type SafePath,
  type Storage,
  type StorageUser,
} from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import { type Attachment, openVolume, type Source } from './attachment.ts';
import { type LauncherDisks, nameOf } from './launcher-disks.ts';

/** One volume, with where it comes from. */
export interface Wanted {
  readonly volume: string;
  readonly kind: HotPlugKind;
  /** Undefined: it has no attachment pod yet. */
  readonly attachment: Attachment | undefined;
  readonly user: StorageUser;
  /** It cannot be plugged at all. */
  readonly refusal?: HostError;
  /** The domain uses it: what is in its place stays. */
  readonly isAttached: boolean;
}

/** What is to be done for a volume. */
export type Task =
  /** It is there; `device`: of its node. */
  | { readonly kind: 'there'; readonly device?: BlockDevice }
  | { readonly kind: 'make'; readonly device: BlockDevice; readonly isReplaced: boolean }
  | { readonly kind: 'bind'; readonly source: SafePath; readonly process: ProcessId; readonly isReplaced: boolean }
  | { readonly kind: 'missing'; readonly because: string };

export interface PlugDeps {
  readonly disks: LauncherDisks;
  readonly mounts: HostMounts;
  readonly storage: Storage;
  readonly procDir: string;
  readonly makeNode: Awaited<ReturnType<typeof deviceNodeMaker>>;
  /** On disk before anything is made. */
  readonly record: (name: string) => Promise<void>;
}

/** Looks at the machine, changes nothing. A task with a source is to be closed. Rejects with HostError, MountError or the system's. */
export async function taskOf(wanted: Wanted, deps: PlugDeps): Promise<Task> {
  return wanted.kind === 'block' ? deviceTask(wanted, deps) : mountTask(wanted, deps);
}

function deviceTask({ volume, attachment, isAttached }: Wanted, { disks }: PlugDeps): Task {
  const source = attachment?.device(volume) ?? withoutAttachment(volume);
  const there = disks.at(volume);
  switch (there.kind) {
    case 'none':
      return source.kind === 'found' ? { kind: 'make', device: source.source, isReplaced: false } : source;
    case 'block':
      if (source.kind !== 'found' || isSame(source.source, there.device))
        return { kind: 'there', device: there.device };
      if (isAttached) throw replaced(volume, 'is another device than the one that the guest uses');
      return { kind: 'make', device: source.source, isReplaced: true };
    case 'mounted':
    case 'empty':
    case 'foreign':
      throw inTheWay(volume, disks, volume);
    default:
      return there satisfies never;
  }
}

async function mountTask(wanted: Wanted, deps: PlugDeps): Promise<Task> {
  const { volume, kind, isAttached } = wanted;
  const { disks } = deps;
  const name = nameOf(kind, volume);
  const there = disks.at(name).kind;
  if (there === 'block' || there === 'foreign') throw inTheWay(volume, disks, name);
  const found = await sourceOf(wanted, deps);
  if (found.kind === 'missing') return there === 'mounted' ? { kind: 'there' } : found;
  const { source, process } = found;
  if (there !== 'mounted') return { kind: 'bind', source, process, isReplaced: false };
  const isIdentical = await isSameImage(source, name, wanted, deps).catch((error: unknown) => {
    source.close();
    throw error;
  });
  if (isIdentical) {
    source.close();
    return { kind: 'there' };
  }
  if (!isAttached) return { kind: 'bind', source, process, isReplaced: true };
  source.close();
  throw replaced(volume, 'is another image than the one that the guest uses');
}

type OpenedSource =
  | { readonly kind: 'found'; readonly source: SafePath; readonly process: ProcessId }
  | { readonly kind: 'missing'; readonly because: string };

async function sourceOf({ volume, kind, attachment, user }: Wanted, deps: PlugDeps): Promise<OpenedSource> {
  const found: Source<ProcessId> = (await attachment?.process()) ?? withoutAttachment(volume);
  if (found.kind === 'missing') return found;
  const process = found.source;
  const opened = await openVolume({ process, volume, isDirectory: kind === 'directory', user }, deps);
  return opened.kind === 'missing' ? opened : { ...opened, process };
}

async function isSameImage(
  source: SafePath,
  name: string,
  { user }: Wanted,
  { disks, storage }: PlugDeps,
): Promise<boolean> {
  // No link is mounted on; what is mounted is not looked at here.
  const target = disks.directory.entry(name);
  try {
    return isSameFile(await storage.stat(source, user), await storage.stat(target, user));
  } finally {
    target.close();
  }
}

/** Whether or not it was there before: an earlier try may have ended before the last step. */
export async function carryOut({ volume, kind, user }: Wanted, task: Task, deps: PlugDeps): Promise<void> {
  if (task.kind === 'missing') return;
  const { disks, record } = deps;
  const name = nameOf(kind, volume);
  await record(name);
  if (task.kind !== 'there' && task.isReplaced) await disks.remove(name);
  if (task.kind === 'make') deps.makeNode(disks.directory, name, task.device, 0o660);
  if (task.kind === 'bind') await bind(name, kind, task, deps);
  const target = disks.directory.entry(name);
  try {
    await deps.storage.setOwner(target, { uid: qemuId, gid: qemuId }, user);
  } finally {
    target.close();
  }
}

async function bind(name: string, kind: HotPlugKind, task: Task & { kind: 'bind' }, deps: PlugDeps): Promise<void> {
  const { disks, mounts } = deps;
  try {
    if (kind === 'directory') disks.directory.makeDirectory(name, 0o750);
    else disks.directory.touch(name, 0o666);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
  const target = disks.directory.child(name);
  try {
    await mounts.bind(task.source, target, { readOnly: false, sourcePid: task.process.pid });
  } finally {
    target.close();
  }
}

function withoutAttachment(volume: string): { readonly kind: 'missing'; readonly because: string } {
  return { kind: 'missing', because: `volume ${volume} has no attachment pod yet` };
}

function inTheWay(volume: string, disks: LauncherDisks, name: string): HostError {
  const problem = `volume ${volume} cannot be plugged: what is at ${disks.directory.shown}/${name} was not made for it`;
  return new HostError('MOUNT_TARGET', `${problem}. Remove the volume and add it under another name.`);
}

function replaced(volume: string, what: string): HostError {
  const problem = `what the attachment pod has for volume ${volume} ${what}: remove the volume and add it again`;
  return new HostError('HOTPLUG_SOURCE', problem);
}

function isSame(one: BlockDevice, other: BlockDevice): boolean {
  return one.major === other.major && one.minor === other.minor;
}
