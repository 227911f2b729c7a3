import { chmod, chown, mkdir, readdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Container, KeysAsFiles, Pod } from '../../api/index.ts';
import { errorCode } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import type { PodSource } from './ports.ts';
import { relativePath } from './relative-path.ts';

export interface ObjectVolume {
  readonly kind: 'secret' | 'configMap';
  readonly name: string | undefined;
  readonly source: KeysAsFiles;
  readonly dir: string;
}

/** Who may read what is made for a pod: owner and group of files, and which bits of a mode may remain. */
export interface Readers {
  readonly uid: number;
  readonly gid: number;
  readonly dirMode: number;
  readonly fileMask: number;
}

const defaultMode = 0o644;
/** No key can have this name; programs in pods look over what begins like it, as over the kubelet's own. */
const draftsName = '..drafts';

/**
 * The pod's user, by its group (fsGroup) as a kubelet does it; no others. A pod of root's shares its files with no group: QEMU,
 * which is another user there, gets what it needs of a secret as a disk image.
 */
export function readersOf(pod: Pod, container: Container): Readers {
  const user = container.securityContext?.runAsUser ?? pod.spec.securityContext?.runAsUser ?? 0;
  const group = pod.spec.securityContext?.fsGroup;
  if (user === 0) return { uid: 0, gid: 0, dirMode: 0o700, fileMask: 0o500 };
  if (group === undefined) return { uid: user, gid: 0, dirMode: 0o700, fileMask: 0o500 };
  return { uid: 0, gid: group, dirMode: 0o750, fileMask: 0o550 };
}

/**
 * The keys of a Secret or ConfigMap as files in `dir`, and no others: it may be done again while the pod runs. Modes are the volume's (0644 unless told), readable for the pod's user in
 * any case, without the bits that no process in the pod needs. Throws NodeError NOT_FOUND, POD_INVALID.
 */
export async function writeObjectVolume(
  pod: Pod,
  { kind, name, source, dir }: ObjectVolume,
  readers: Readers,
  objects: Pick<PodSource, 'readObject'>,
): Promise<void> {
  const namespace = pod.metadata.namespace ?? 'default';
  if (!name) throw new NodeError('POD_INVALID', `a ${kind} volume has no name of its ${kind}`);
  const data = await objects.readObject(kind, namespace, name);
  if (!data && !source.optional) {
    throw new NodeError('NOT_FOUND', `${kind} ${namespace}/${name} does not exist: create it`);
  }
  await makeReadableDir(dir, readers);
  const files = source.items ?? [...(data?.keys() ?? [])].map((key) => ({ key, path: key }));
  const written = new Set<string>();
  for (const { key, path: file, mode = source.defaultMode ?? defaultMode } of files as NonNullable<
    KeysAsFiles['items']
  >) {
    const content = data?.get(key);
    if (content) written.add(await writeReadable(dir, relativePath(file, 'path'), content, mode, readers));
    else if (!source.optional) throw new NodeError('NOT_FOUND', `${kind} ${namespace}/${name} has no key ${key}`);
  }
  await rm(path.join(dir, draftsName), { recursive: true, force: true });
  await removeOthers(dir, written);
}

/** Of keys that the object has no longer. Directories stay: one may stand where a mounted key is missing. */
async function removeOthers(dir: string, written: ReadonlySet<string>): Promise<void> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((each) => each.isFile())) {
    const file = path.join(entry.parentPath, entry.name);
    if (!written.has(path.relative(dir, file))) await rm(file);
  }
}

async function writeReadable(
  dir: string,
  file: string,
  content: Buffer,
  mode: number,
  readers: Readers,
): Promise<string> {
  for (let parent = path.dirname(file); parent !== '.'; parent = path.dirname(parent)) {
    await makeReadableDir(path.join(dir, parent), readers);
  }
  const target = path.join(dir, file);
  const before = await readFile(target).catch((error: unknown) => errorCode(error));
  if (typeof before === 'object' && before.equals(content)) return file;
  // It stood for the key where that was mounted alone; who has it mounted keeps it.
  if (before === 'EISDIR') await rmdir(target);
  const drafts = path.join(dir, draftsName);
  await mkdir(drafts, { recursive: true, mode: 0o700 });
  const draft = path.join(drafts, 'draft');
  await writeFile(draft, content, { mode: 0o600 });
  await chown(draft, readers.uid, readers.gid);
  await chmod(draft, (mode | 0o440) & readers.fileMask);
  // The pod, which may run, sees the old key or the new one, with its owner and mode.
  await rename(draft, target);
  return file;
}

/** Also what stands where a mounted key is missing. */
export async function makeReadableDir(dir: string, { uid, gid, dirMode }: Readers): Promise<void> {
  await mkdir(dir, { recursive: true });
  await chown(dir, uid, gid);
  await chmod(dir, dirMode);
}
