import path from 'node:path';
import { claimImagePath, isNonRoot, parseQuantity, type Volume } from '../../../api/index.ts';
import { CodedError, errorCode, errorMessage } from '../../../base/index.ts';
import type { ClusterConfig } from '../../../cluster-config/index.ts';
import type { SafePath } from '../../../host/index.ts';
import type { HostHook, HostHookContext, VmiEvent } from '../ports.ts';
import { hasImage, makeImage, removeDraft } from './disk-image.ts';
import { HostError } from './errors.ts';
import { giveToQemu, LauncherRoot } from './launcher-root.ts';

/** Below `/var/run` of the launcher. */
const disksDir = 'kubevirt-private/vmi-disks';

/** Creates missing disk images of `DiskOrCreate` volumes inside the launcher. Nothing to release: they are the user's. */
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

function prepareVolume(root: LauncherRoot, volume: Volume, context: HostHookContext): VmiEvent[] {
  if (!volume.hostDisk?.path) return [];
  try {
    return prepareDirectory(root, volume, context);
  } catch (cause) {
    throw diskError(volume.name, cause);
  }
}

function prepareDirectory(root: LauncherRoot, volume: Volume, { vmi, config }: HostHookContext): VmiEvent[] {
  const { name, hostDisk } = volume;
  if (name.includes('/')) throw new HostError('DISK_NAME', `${JSON.stringify(name)} is no name of a volume`);
  const mayCreate = hostDisk?.type === 'DiskOrCreate';
  const events = root.useRunning(`${disksDir}/${name}`, (place) => {
    if (!place.stat().isDirectory()) throw new HostError('DISK_REPLACED', `${place.shown} is no directory`);
    const made = mayCreate ? createImage(place, volume, config) : [];
    // Else it is a directory of the machine, which the VMI chose: giving it away would give away `/etc`.
    if (isNonRoot(vmi) && hostDisk?.path === claimImagePath(name)) giveToQemu(place);
    return made;
  });
  if (events === undefined && mayCreate) {
    throw new HostError('NO_VOLUME_STATUS', `the launcher has no directory ${disksDir}/${name} below /var/run`);
  }
  return events ?? [];
}

function createImage(place: SafePath, volume: Volume, config: ClusterConfig): VmiEvent[] {
  const file = path.posix.basename(volume.hostDisk?.path ?? '');
  if (hasImage(place, file)) {
    removeDraft(place);
    return [];
  }
  const wanted = Math.floor(parseQuantity(volume.hostDisk?.capacity) ?? 0);
  // No file has more bytes than can be counted, and NaN is no number of them.
  if (!(wanted > 0)) {
    throw new HostError('DISK_TOO_LARGE', `hostDisk of volume ${volume.name} needs a capacity to be created`);
  }
  const { sizeBytes, events } = fittingSize(volume.name, wanted, freeBytes(place, config), config);
  makeImage(place, file, sizeBytes);
  return events;
}

const advice: Readonly<Record<string, string>> = {
  ENOSPC: 'the volume is full: free some room or take a larger one',
  EDQUOT: 'the quota of the volume is used up: free some room or raise it',
  EFBIG: 'its file system takes no file of this size: ask for less',
  EROFS: 'the volume is read-only',
  ENAMETOOLONG: 'its file name is longer than a directory takes',
};

/** What a tenant may have put anywhere is an error of its disk that says which one, never a riddle of the system. */
function diskError(name: string, cause: unknown): HostError {
  if (cause instanceof HostError) return cause;
  const systemCode = errorCode(cause) ?? '';
  const isName = systemCode === 'NOT_CLEAN' || systemCode === 'ENAMETOOLONG';
  const code = isName ? 'DISK_NAME' : systemCode === 'SYMLINK' ? 'DISK_REPLACED' : 'DISK_NOT_MADE';
  const reason = cause instanceof CodedError ? errorMessage(cause) : (advice[systemCode] ?? systemCode);
  return new HostError(code, `disk of volume ${name.slice(0, 100)} cannot be made: ${reason}`, { cause });
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
  return Math.max(0, Math.floor(place.freeBytes() - config.minimumReservePvcBytes));
}
