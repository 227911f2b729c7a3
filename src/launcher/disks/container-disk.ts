import { lstat, readdir, readlink, rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import type { Volume } from '../../api/index.ts';
import { errorCode, errorMessage } from '../../base/index.ts';
import type { ResolvedDisk } from '../domain/index.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { ensureDir, ensureOverlay, inspectImage } from './image.ts';
import { lstatIfThere, resolveDirInRoot, resolveFileInRoot } from './image-path.ts';

/** Where a containerDisk image keeps its disk unless the volume says otherwise. */
const diskDirectory = 'disk';

/** The image's disk, and a qcow2 layer of this VMI above it (`pkg/ephemeral-disk`). */
export async function prepareContainerDisk(volume: Volume, index: number, env: DiskEnv): Promise<ResolvedDisk> {
  const what = `spec.volumes[${volume.name}].containerDisk`;
  const backingPath = path.join(env.paths.containerDiskDir, `disk_${index}.img`);
  if (env.imageVolume) await linkTo(backingPath, await findImageFile(volume, index, env), env);
  else await requireMounted(backingPath, what);
  const format = await inspectImage(backingPath, what, env);
  const overlay = path.join(env.paths.ephemeralDir, 'disk-data', volume.name, 'disk.qcow2');
  await ensureOverlay(overlay, { path: backingPath, format }, env);
  return { path: overlay, format: 'qcow2', isBlock: false, backing: { path: backingPath, format, isBlock: false } };
}

async function findImageFile(volume: Volume, index: number, env: DiskEnv): Promise<string> {
  const what = `spec.volumes[${volume.name}].containerDisk`;
  const root = path.join(env.paths.imageVolumeDir, `disk_${index}`);
  const image = volume.containerDisk?.image ?? '';
  await requireImageRoot(root, what, image);
  const asked = volume.containerDisk?.path;
  if (asked) {
    return resolveFileInRoot(root, asked).catch((error: unknown) => {
      throw missing(`${what}.path: the image ${image} has no file ${asked}: ${errorMessage(error)}`, error);
    });
  }
  const names = await listDisks(root, what, image);
  const [only, ...others] = names;
  if (only === undefined)
    throw missing(`${what}: the directory /${diskDirectory} of the image ${image} is empty (${root})`);
  if (others.length === 0) return resolveFileInRoot(root, `${diskDirectory}/${only}`);
  throw missing(
    `${what}: the image ${image} has ${names.length} files in /${diskDirectory} (${names.join(', ')}): set path to one`,
  );
}

async function listDisks(root: string, what: string, image: string): Promise<string[]> {
  try {
    const dir = await resolveDirInRoot(root, diskDirectory);
    return (await readdir(dir)).filter((name) => !name.startsWith('.')).sort();
  } catch (error) {
    const advice = 'put the disk there, or set path';
    throw missing(`${what}: the image ${image} has no directory /${diskDirectory} (${root}): ${advice}`, error);
  }
}

/** The mounted root directory of an image. Throws `IMAGE_MISSING`. */
export async function requireImageRoot(root: string, what: string, image: string): Promise<void> {
  const there = await lstatIfThere(root);
  if (there?.isDirectory()) return;
  throw missing(`${what}: the image ${image} is not mounted at ${root}: is it on this node?`);
}

/** The agent bind-mounts a plain file here; a link would not be the agent's. */
export async function requireMounted(file: string, what: string): Promise<void> {
  const there = await lstatIfThere(file);
  if (there?.isFile()) return;
  throw missing(`${what}: ${file} is not there: the agent mounts it before the start, look into its log`);
}

function missing(message: string, cause?: unknown): DiskError {
  return new DiskError('IMAGE_MISSING', message, { cause });
}

/** Makes `link` point to `target`; the name is the same on every node, which migration needs. */
export async function linkTo(link: string, target: string, env: DiskEnv): Promise<void> {
  if ((await currentTarget(link)) === target) return;
  await ensureDir(path.dirname(link), env);
  const part = `${link}.part`;
  await rm(part, { force: true });
  await symlink(target, part);
  await rename(part, link);
}

async function currentTarget(link: string): Promise<string | undefined> {
  try {
    return await readlink(link);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT') return undefined;
    if (code !== 'EINVAL') throw error;
    const kind = (await lstat(link)).isDirectory() ? 'directory' : 'file';
    throw new DiskError('UNSAFE_PATH', `${link} should be a link, but is a ${kind}: remove it`, { cause: error });
  }
}
