import { constants } from 'node:fs';
import { chmod, chown, mkdir, open, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Container, labels, type Pod, type PodVolume, type VolumeMount } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { qemuUser } from './accounts.ts';
import type { ClaimDirectories } from './claims.ts';
import type { HostDisks } from './host-disks.ts';
import type { ImageStore } from './images.ts';
import { makeReadableDir, type ObjectVolume, type Readers, readersOf, writeObjectVolume } from './object-volume.ts';
import type { PodSource } from './ports.ts';
import { relativePath } from './relative-path.ts';
import type { SandboxMount } from './sandbox-plan.ts';

export interface VolumeDeps {
  readonly images: Pick<ImageStore, 'resolve'>;
  readonly objects: Pick<PodSource, 'readObject' | 'hostDisksOf'>;
  readonly hostDisks: Pick<HostDisks, 'take'>;
  readonly claims: Pick<ClaimDirectories, 'take' | 'device'>;
}

interface Source {
  readonly dir: string;
  readonly readOnly: boolean;
  /** Makes a sub-path that is missing, as a kubelet does; undefined: none is made. */
  readonly make?: (dir: string) => Promise<void>;
  /** The source is one file, seen under this name in the directory where the volume is mounted. */
  readonly fileName?: string;
  /** As in `SandboxMount`. */
  readonly identity?: string;
  /** Pods may put anything into it: a sub-path is one name, and no link is followed. */
  readonly isPods?: true;
}

/**
 * Makes the pod's volumes below `<podDir>/volumes` in kubelet's layout and returns what to mount where in the container.
 * Throws NodeError: IMAGE_MISSING, IMAGE_INVALID, HOST_DISK_REFUSED, NOT_FOUND, UNSUPPORTED, POD_INVALID, each with what to do.
 */
export async function prepareVolumes(
  pod: Pod,
  container: Container,
  podDir: string,
  deps: VolumeDeps,
): Promise<SandboxMount[]> {
  const volumes = new Map((pod.spec.volumes ?? []).map((volume) => [volume.name, volume]));
  const sources = new Map<string, Source>();
  const readers = readersOf(pod, container);
  await mkdir(podDir, { recursive: true, mode: 0o700 });
  const mounted = new Set((container.volumeMounts ?? []).map(({ name }) => name));
  const devices = new Set((container.volumeDevices ?? []).map(({ name }) => name));
  for (const volume of volumes.values()) {
    if (devices.has(volume.name) && !mounted.has(volume.name)) continue;
    // Of a container that only a kubelet has a use for.
    if (volume.image && !mounted.has(volume.name)) continue;
    sources.set(volume.name, await prepareVolume(pod, volume, podDir, readers, deps));
  }
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
  if (source.fileName !== undefined) {
    if (mount.subPath) throw invalid(`volume ${mount.name} is one file: it has no sub-path`);
    return {
      source: source.dir,
      target: `${target}/${source.fileName}`,
      readOnly: mount.readOnly === true,
      type: 'file',
      ...(source.identity !== undefined && { identity: source.identity }),
    };
  }
  if (source.isPods && mount.subPath) return directoryIn(source, mount, target);
  const from = mount.subPath ? path.join(source.dir, relativePath(mount.subPath, 'subPath')) : source.dir;
  const found = await stat(from).catch(() => undefined);
  if (!found && source.make && mount.subPath) await source.make(from);
  else if (!found) throw new NodeError('NOT_FOUND', `volume ${mount.name} has no ${mount.subPath ?? 'directory'}`);
  const type = found && !found.isDirectory() ? 'file' : 'directory';
  const followsHost = mount.mountPropagation === 'HostToContainer' && ({ followsHost: true } as const);
  return { source: from, target, readOnly: source.readOnly || mount.readOnly === true, type, ...followsHost };
}

/** A directory of a claim, which is made if it is missing. Who has the whole claim may exchange it: what is looked at here is mounted, or nothing. */
async function directoryIn(source: Source, mount: VolumeMount, target: string): Promise<SandboxMount> {
  const name = relativePath(mount.subPath ?? '', 'subPath');
  if (name.includes('/')) throw invalid(`volume ${mount.name}: the sub-path of a claim is one name, and not ${name}`);
  const dir = path.join(source.dir, name);
  const isNew = await mkdir(dir).then(
    () => true,
    () => false,
  );
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  const handle = await open(dir, flags).catch(() => {
    throw new NodeError('VOLUME_DAMAGED', `volume ${mount.name} has no directory ${name}: look at ${dir}`);
  });
  try {
    if (isNew) {
      await handle.chown(0, qemuUser.gid);
      await handle.chmod(openMode);
    }
    const { dev, ino } = await handle.stat({ bigint: true });
    const readOnly = source.readOnly || mount.readOnly === true;
    return { source: dir, target, readOnly, type: 'directory', identity: `${dev}-${ino}` };
  } finally {
    await handle.close();
  }
}

/**
 * Brings the secrets and config maps that the pod has mounted up to what they are by now, as a kubelet does; files that were mounted alone
 * stay. Returns what could not be, a text per volume: of these the pod keeps the last. One that fails keeps no other from its turn.
 */
export async function refreshObjects(
  pod: Pod,
  podDir: string,
  objects: Pick<PodSource, 'readObject'>,
): Promise<string[]> {
  const [container] = pod.spec.containers;
  if (!container) return [];
  const readers = readersOf(pod, container);
  const mounted = new Set((container.volumeMounts ?? []).map(({ name }) => name));
  const problems: string[] = [];
  for (const volume of pod.spec.volumes ?? []) {
    const wanted = objectOf(volume, podDir);
    if (!wanted || !mounted.has(volume.name)) continue;
    try {
      await writeObjectVolume(pod, wanted, readers, objects);
    } catch (error) {
      problems.push(`volume ${volume.name}: ${errorMessage(error)}`);
    }
  }
  return problems;
}

export function hasObjects({ spec }: Pod): boolean {
  return (spec.volumes ?? []).some(({ secret, configMap }) => secret ?? configMap);
}

/** Kinds of pods whose programs have no other right to a disk than QEMU has; a launcher, which is root, gives it to QEMU itself, and libvirt takes it back. */
const asQemu: readonly (string | undefined)[] = ['hotplug-disk', 'virt-exporter'];

/** In the kubelet's layout. */
function placeOf(podDir: string, plugin: string, name: string): string {
  return path.join(podDir, 'volumes', `kubernetes.io~${plugin}`, name);
}

function objectOf({ name: volume, secret, configMap }: PodVolume, podDir: string): ObjectVolume | undefined {
  if (secret) {
    const dir = placeOf(podDir, 'secret', volume);
    return { kind: 'secret', name: secret.secretName, source: secret, dir };
  }
  if (!configMap) return undefined;
  return { kind: 'configMap', name: configMap.name, source: configMap, dir: placeOf(podDir, 'configmap', volume) };
}

async function prepareVolume(
  pod: Pod,
  volume: PodVolume,
  podDir: string,
  readers: Readers,
  deps: VolumeDeps,
): Promise<Source> {
  if (!/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(volume.name)) {
    throw invalid(`${JSON.stringify(volume.name)} is no volume name`);
  }
  if (volume.emptyDir) return prepareEmptyDir(volume, placeOf(podDir, 'empty-dir', volume.name));
  if (volume.image) {
    return { dir: await deps.images.resolve(volume.image.reference ?? ''), readOnly: true };
  }
  if (volume.hostPath) return prepareHostDisk(pod, volume, deps);
  const object = objectOf(volume, podDir);
  if (object) return prepareObject(pod, object, readers, deps);
  if (volume.persistentVolumeClaim) {
    const { claimName } = volume.persistentVolumeClaim;
    const needsImage = asQemu.includes(pod.metadata.labels?.[labels.app]);
    const { namespace = 'default' } = pod.metadata;
    const dir = await deps.claims.take({ namespace, name: claimName, needsImage });
    return { dir, readOnly: false, isPods: true };
  }
  const kind = Object.keys(volume).find((key) => key !== 'name') ?? 'nothing';
  throw new NodeError(
    'UNSUPPORTED',
    `volume ${volume.name}: the standalone node has no ${kind}; use a claim, a containerDisk, hostDisk, emptyDisk or cloud-init volume`,
  );
}

/**
 * A hostPath is only ever that of a VMI's hostDisk, and of its directory the pod gets that one file: other files there may be other
 * VMs' disks.
 */
async function prepareHostDisk(pod: Pod, { name }: PodVolume, deps: VolumeDeps): Promise<Source> {
  const disk = (await deps.objects.hostDisksOf(pod)).get(name);
  if (!disk) {
    throw new NodeError(
      'UNSUPPORTED',
      `volume ${name}: a hostPath that is not the hostDisk of the pod's VMI is not mounted here`,
    );
  }
  const { file, identity } = await deps.hostDisks.take(pod.metadata.uid ?? '', name, disk);
  return { dir: file, readOnly: false, fileName: path.basename(file), identity };
}

async function prepareEmptyDir(volume: PodVolume, dir: string): Promise<Source> {
  const medium = volume.emptyDir?.medium ?? '';
  if (medium.startsWith('HugePages')) {
    throw new NodeError('UNSUPPORTED', `volume ${volume.name}: the standalone node does not give out huge pages`);
  }
  await makeOpenDirectory(dir);
  return { dir, readOnly: false, make: makeOpenDirectory };
}

const openMode = 0o2771;

/**
 * As a kubelet leaves an emptyDir with fsGroup 107, new files belong to the group; unlike there, others may only pass through:
 * libvirt's helpers for TPMs, which are users of their own. No process outside of the pod comes here: its parents are root's only.
 */
async function makeOpenDirectory(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true });
  await chown(dir, 0, qemuUser.gid);
  await chmod(dir, openMode);
}

async function prepareObject(pod: Pod, wanted: ObjectVolume, readers: Readers, deps: VolumeDeps): Promise<Source> {
  await writeObjectVolume(pod, wanted, readers, deps.objects);
  return { dir: wanted.dir, readOnly: true, make: (dir) => makeReadableDir(dir, readers) };
}

/** Of the pod's root directory, with what every pod has in it. */
const ownDirs = [
  'usr',
  'bin',
  'sbin',
  'lib',
  'lib32',
  'lib64',
  'libx32',
  'etc',
  'dev',
  'proc',
  'sys',
  'tmp',
  'var',
  'root',
];

/** Where exporter pods have their volumes, as upstream's controller says; in /dev their devices. */
export const exportVolumes = 'export-volumes';

/** Where a launcher that is root, its libvirt and swtpm keep what a claim may keep; the pod has directories of its own there. */
const stateDirs = [
  ...['/var/lib/libvirt/qemu/nvram', '/var/lib/libvirt/qemu/cbt'],
  ...['/var/lib/libvirt/swtpm', '/var/lib/swtpm-localca'],
];

/** Mount points are made in the pod's private /run, at `stateDirs`, in its root directory, where attachment pods have their volumes, or in `exportVolumes`. */
function podPath(mountPath: string): string {
  const normal = path.posix
    .normalize(mountPath)
    .replace(/\/$/, '')
    .replace(/^\/var\/run\//, '/run/');
  const [, first = '', ...others] = normal.split('/');
  const isFree =
    normal.startsWith('/run/') ||
    stateDirs.includes(normal) ||
    (others.length === 0 && first !== '' && ![...ownDirs, 'run'].includes(first)) ||
    (others.length === 1 && first === exportVolumes);
  if (isFree && !mountPath.split('/').includes('..')) return normal;
  throw new NodeError(
    'UNSUPPORTED',
    `mount path ${mountPath}: the standalone node mounts below /run and /var/run, and new directories of /`,
  );
}

function invalid(message: string): NodeError {
  return new NodeError('POD_INVALID', message);
}
