import { renameSync, statfsSync, truncateSync } from 'node:fs';
import path from 'node:path';
import { isNonRoot, parseQuantity, type Volume } from '../../api/index.ts';
import { errorCode } from '../../base/index.ts';
import type { ClusterConfig } from '../../cluster-config/index.ts';
import type { SafePath } from '../../host/index.ts';
import type { HostHook, HostHookContext, VmiEvent } from '../ports.ts';
import { HostError } from './errors.ts';
import { LauncherRoot, qemuId } from './launcher-root.ts';

const disksDir = '/var/run/kubevirt-private/vmi-disks';

/** Creates missing disk images of `DiskOrCreate` volumes inside the launcher (spec 41 §9.2). Nothing to release: they are the user's. */
export function hostDiskImages(options: { readonly procDir?: string } = {}): HostHook {
  return {
    name: 'host-disk-images',
    prepare: async (context) => {
      if (context.launcherPid === undefined) return [];
      const root = new LauncherRoot(context.launcherPid, options.procDir);
      return (context.vmi.spec.volumes ?? []).flatMap((volume) => prepareVolume(root, volume, context));
    },
    release: async () => undefined,
  };
}

function prepareVolume(root: LauncherRoot, volume: Volume, { vmi, config }: HostHookContext): VmiEvent[] {
  const { hostDisk } = volume;
  if (!hostDisk?.path) return [];
  const directory = `${disksDir}/${volume.name}`;
  const events: VmiEvent[] = [];
  if (hostDisk.type === 'DiskOrCreate') {
    const made = root.use(directory, (place) => createImage(place, volume, config));
    if (made === undefined) {
      throw new HostError('NO_VOLUME_STATUS', `the launcher has no directory ${directory} for volume ${volume.name}`);
    }
    events.push(...made);
  }
  if (isNonRoot(vmi)) root.giveToQemu(directory);
  return events;
}

function createImage(place: SafePath, volume: Volume, config: ClusterConfig): VmiEvent[] {
  const file = path.posix.basename(volume.hostDisk?.path ?? '');
  if (exists(place, file)) return [];
  const wanted = parseQuantity(volume.hostDisk?.capacity) ?? 0;
  if (wanted <= 0) {
    throw new HostError('DISK_TOO_LARGE', `hostDisk of volume ${volume.name} needs a capacity to be created`);
  }
  const { sizeBytes, events } = fittingSize(volume.name, wanted, freeBytes(place, config), config);
  // Under another name first: a crash in between would leave an empty file that is then taken for the disk.
  const unfinished = `.${file}.new`;
  if (exists(place, unfinished)) place.unlink(unfinished);
  place.touch(unfinished, 0o666);
  truncateSync(`${place.path}/${unfinished}`, sizeBytes);
  const image = place.child(unfinished);
  try {
    image.setOwner(qemuId, qemuId);
  } finally {
    image.close();
  }
  renameSync(`${place.path}/${unfinished}`, `${place.path}/${file}`);
  return events;
}

function fittingSize(
  name: string,
  wanted: number,
  free: number,
  config: ClusterConfig,
): { sizeBytes: number; events: VmiEvent[] } {
  if (wanted <= free) return { sizeBytes: wanted, events: [] };
  const percent = config.tolerateLessPvcSpacePercent;
  if (wanted * (1 - percent / 100) > free) {
    const text = `disk of volume ${name}: ${wanted} bytes are wanted and ${free} are free; ${percent} % less would be accepted`;
    throw new HostError('DISK_TOO_LARGE', text);
  }
  const message = `disk of volume ${name}: wanted ${wanted} bytes, made ${free}, within the tolerance of ${percent} %`;
  return { sizeBytes: free, events: [{ type: 'Normal', reason: 'ToleratedSmallPV', message }] };
}

/** Never below 0: upstream's unsigned difference wraps on a nearly full volume. */
function freeBytes(place: SafePath, config: ClusterConfig): number {
  const { bavail, bsize } = statfsSync(place.path);
  return Math.max(0, bavail * bsize - config.minimumReservePvcBytes);
}

function exists(place: SafePath, name: string): boolean {
  try {
    place.child(name).close();
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}
