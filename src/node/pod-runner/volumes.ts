import { chmod, chown, mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Container, Pod, PodVolume, VolumeMount } from '../../api/index.ts';
import { NodeError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';
import { qemuUser } from './accounts.ts';
import type { ImageStore } from './images.ts';
import type { PodSource } from './ports.ts';
import type { SandboxMount } from './sandbox-script.ts';

export interface VolumeDeps {
  readonly images: Pick<ImageStore, 'resolve'>;
  readonly objects: Pick<PodSource, 'readObject'>;
}

interface Source {
  readonly dir: string;
  readonly readOnly: boolean;
  /** Lies below the pod's directory: a missing sub-path is made, as kubelet does it. */
  readonly isOfPod: boolean;
}

/**
 * Makes the pod's volumes below `<podDir>/volumes` in kubelet's layout and tells what to mount where in the container.
 * Throws NodeError: IMAGE_MISSING, IMAGE_INVALID, NOT_FOUND, UNSUPPORTED, POD_INVALID, each with what to do.
 */
export async function prepareVolumes(
  pod: Pod,
  container: Container,
  podDir: string,
  deps: VolumeDeps,
): Promise<SandboxMount[]> {
  const volumes = new Map((pod.spec.volumes ?? []).map((volume) => [volume.name, volume]));
  const sources = new Map<string, Source>();
  for (const volume of volumes.values()) sources.set(volume.name, await prepareVolume(pod, volume, podDir, deps));
  const mounts = (container.volumeMounts ?? []).map((mount) => {
    const source = sources.get(mount.name);
    if (!source) throw invalid(`container ${container.name} mounts ${mount.name}, which is no volume of the pod`);
    return toMount(mount, source);
  });
  // Parents before what is mounted inside them.
  return (await Promise.all(mounts)).sort((a, b) => a.target.length - b.target.length);
}

async function toMount(mount: VolumeMount, source: Source): Promise<SandboxMount> {
  const target = podPath(mount.mountPath);
  const from = mount.subPath ? path.join(source.dir, relativePath(mount.subPath, 'subPath')) : source.dir;
  const found = await stat(from).catch(() => undefined);
  if (!found && source.isOfPod && mount.subPath) await makeOpenDirectory(from);
  else if (!found) throw new NodeError('NOT_FOUND', `volume ${mount.name} has no ${mount.subPath ?? 'directory'}`);
  const type = found && !found.isDirectory() ? 'file' : 'directory';
  return { source: from, target, readOnly: source.readOnly || mount.readOnly === true, type };
}

async function prepareVolume(pod: Pod, volume: PodVolume, podDir: string, deps: VolumeDeps): Promise<Source> {
  if (!/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(volume.name)) {
    throw invalid(`${JSON.stringify(volume.name)} is no volume name`);
  }
  const place = (plugin: string) => path.join(podDir, 'volumes', `kubernetes.io~${plugin}`, volume.name);
  if (volume.emptyDir) return prepareEmptyDir(volume, place('empty-dir'));
  if (volume.image) {
    return { dir: await deps.images.resolve(volume.image.reference ?? ''), readOnly: true, isOfPod: false };
  }
  if (volume.hostPath) return prepareHostPath(volume.name, volume.hostPath);
  if (volume.secret)
    return prepareObject(pod, volume.secret.secretName, volume.secret, place('secret'), 'secret', deps);
  if (volume.configMap) {
    return prepareObject(pod, volume.configMap.name, volume.configMap, place('configmap'), 'configMap', deps);
  }
  const kind = Object.keys(volume).find((key) => key !== 'name') ?? 'nothing';
  throw new NodeError(
    'UNSUPPORTED',
    `volume ${volume.name}: the standalone node has no ${kind}; use a containerDisk, hostDisk, emptyDisk or cloud-init volume`,
  );
}

async function prepareEmptyDir(volume: PodVolume, dir: string): Promise<Source> {
  const medium = volume.emptyDir?.medium ?? '';
  if (medium.startsWith('HugePages')) {
    throw new NodeError('UNSUPPORTED', `volume ${volume.name}: the standalone node does not give out huge pages`);
  }
  await makeOpenDirectory(dir);
  return { dir, readOnly: false, isOfPod: true };
}

/** As kubelet leaves an emptyDir with fsGroup 107: anyone may use it, new files belong to the group. */
async function makeOpenDirectory(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true });
  await chown(dir, 0, qemuUser.gid);
  await chmod(dir, 0o2777);
}

async function prepareHostPath(name: string, hostPath: { path: string; type?: string }): Promise<Source> {
  const { path: dir, type = '' } = hostPath;
  if (!path.isAbsolute(dir)) throw invalid(`volume ${name}: host path ${JSON.stringify(dir)} is not absolute`);
  if (type === 'DirectoryOrCreate') await mkdir(dir, { recursive: true });
  const found = await stat(dir).catch(() => undefined);
  if (!found) throw new NodeError('NOT_FOUND', `volume ${name}: ${dir} is not on this node: create it`);
  if (type.startsWith('Directory') && !found.isDirectory()) {
    throw new NodeError('NOT_FOUND', `volume ${name}: ${dir} is not a directory`);
  }
  return { dir, readOnly: false, isOfPod: false };
}

interface ObjectSource {
  readonly items?: { key: string; path: string }[];
  readonly optional?: boolean;
}

async function prepareObject(
  pod: Pod,
  name: string | undefined,
  source: ObjectSource,
  dir: string,
  kind: 'secret' | 'configMap',
  deps: VolumeDeps,
): Promise<Source> {
  const namespace = pod.metadata.namespace ?? 'default';
  if (!name) throw invalid(`a ${kind} volume has no name of its ${kind}`);
  const data = await deps.objects.readObject(kind, namespace, name);
  if (!data && !source.optional) {
    throw new NodeError('NOT_FOUND', `${kind} ${namespace}/${name} does not exist: create it`);
  }
  await mkdir(dir, { recursive: true });
  const files = source.items ?? [...(data?.keys() ?? [])].map((key) => ({ key, path: key }));
  for (const { key, path: file } of files) {
    const content = data?.get(key);
    if (content) await writeFileAtomic(path.join(dir, relativePath(file, 'path')), content, 0o644);
    else if (!source.optional) throw new NodeError('NOT_FOUND', `${kind} ${namespace}/${name} has no key ${key}`);
  }
  return { dir, readOnly: true, isOfPod: true };
}

/** Mount points are made in the pod's private /run; anywhere else they would have to be made on the host. */
function podPath(mountPath: string): string {
  const normal = path.posix
    .normalize(mountPath)
    .replace(/\/$/, '')
    .replace(/^\/var\/run\//, '/run/');
  if (normal.startsWith('/run/') && !mountPath.split('/').includes('..')) return normal;
  throw new NodeError(
    'UNSUPPORTED',
    `mount path ${mountPath}: the standalone node mounts below /run and /var/run only`,
  );
}

function relativePath(text: string, what: string): string {
  const normal = path.posix.normalize(text);
  if (text === '' || path.posix.isAbsolute(text) || text.split('/').includes('..')) {
    throw invalid(`${what} ${JSON.stringify(text)} must stay inside its volume`);
  }
  return normal;
}

function invalid(message: string): NodeError {
  return new NodeError('POD_INVALID', message);
}
