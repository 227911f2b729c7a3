import path from 'node:path';
import type { Container, Pod } from '../../api/index.ts';
import { NodeError } from '../errors.ts';
import type { SandboxDevice } from './sandbox-plan.ts';
import { exportVolumes, type VolumeDeps } from './volumes.ts';

/** What every pod has in its /dev already. */
const ownDevices = [
  ...[
    'console',
    'fd',
    'full',
    'kvm',
    'mqueue',
    'net',
    'null',
    'ptmx',
    'pts',
    'random',
    'sev',
    'shm',
    'stderr',
    'stdin',
  ],
  ...['stdout', 'tty', 'urandom', 'vhost-net', 'vhost-vsock', 'zero', 'bus', 'vfio'],
];

/** The block devices that the container has, of claims. Throws NodeError: POD_INVALID, UNSUPPORTED, and those of `ClaimDirectories`. */
export async function prepareDevices(
  pod: Pod,
  container: Container,
  { claims }: Pick<VolumeDeps, 'claims'>,
): Promise<SandboxDevice[]> {
  const volumes = new Map((pod.spec.volumes ?? []).map((volume) => [volume.name, volume]));
  const { namespace = 'default' } = pod.metadata;
  const devices: SandboxDevice[] = [];
  for (const { name, devicePath } of container.volumeDevices ?? []) {
    const claimName = volumes.get(name)?.persistentVolumeClaim?.claimName;
    if (claimName === undefined) {
      throw new NodeError(
        'POD_INVALID',
        `container ${container.name} has the device ${name}, which is no claim of the pod`,
      );
    }
    const target = placeOf(devicePath, container);
    devices.push({ source: await claims.device(namespace, claimName), target });
  }
  return devices;
}

/** A new name in /dev, or in `exportVolumes` there, or in a directory that is the pod's own volume: there the agent finds what is plugged in. */
function placeOf(devicePath: string, { volumeMounts = [] }: Container): string {
  const normal = path.posix.normalize(devicePath);
  const [, dir, name = '', ...more] = normal.split('/');
  const areNames = [name, ...more].every((each) => /^[a-z0-9][a-z0-9.-]*$/.test(each));
  const isShallow = more.length === 0 || (more.length === 1 && name === exportVolumes);
  const isNew = dir === 'dev' && isShallow && areNames && !ownDevices.includes(name);
  const isInVolume = volumeMounts.some(({ mountPath }) => normal.startsWith(`${mountPath}/`));
  if (normal === devicePath && !normal.split('/').includes('..') && (isNew || isInVolume)) return normal;
  throw new NodeError(
    'UNSUPPORTED',
    `device path ${devicePath}: the standalone node makes devices with new names in /dev: rename the volume`,
  );
}
