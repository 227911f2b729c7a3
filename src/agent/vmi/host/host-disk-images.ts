import path from 'node:path';
import type { VmiEvent } from '../../../api/index.ts';
import { claimImagePath, isNonRoot, parseQuantity, type Volume } from '../../../api/index.ts';
import { CodedError, errorCode, errorMessage, isRecord, listOf, memberAt } from '../../../base/index.ts';
import type { ClusterConfig } from '../../../cluster-config/index.ts';
import { type SafePath, Storage, StorageError } from '../../../host/index.ts';
import { imageSize, makeImage, removeDraft } from './disk-image.ts';
import { HostError } from './errors.ts';
import { giveToQemu, LauncherRoot } from './launcher-root.ts';
import type { HookContext, HostHook } from './work/index.ts';

/** Below `/var/run` of the launcher. */
const disksDir = 'kubevirt-private/vmi-disks';

/** The image of one volume as it is, whether or not it was made here; `wantedBytes` is more where less was tolerated. */
export type DiskImage = {
  readonly volume: string;
  readonly sizeBytes: number;
  readonly wantedBytes: number;
};

export type DiskImageFacts = { readonly images: readonly DiskImage[] };

interface Prepared {
  readonly image?: DiskImage;
  readonly events: readonly VmiEvent[];
}

/** Creates missing disk images of `DiskOrCreate` volumes inside the launcher. Nothing to release: they are the user's. */
export function hostDiskImages(
  options: { readonly procDir?: string } = {},
  { storage = new Storage() }: { readonly storage?: Storage } = {},
): HostHook<'host-disk-images', DiskImageFacts> {
  return {
    name: 'host-disk-images',
    readFacts: (kept) => ({ images: listOf(memberAt(kept, 'images')).filter(isDiskImage) }),
    prepare: async (context) => {
      const root = new LauncherRoot(context.launcherPid, options.procDir);
      for (const { name, hostDisk } of context.vmi.spec.volumes ?? []) {
        if (hostDisk?.path) await untilAnswers(root, name, context.uid, storage);
      }
      const prepared = (context.vmi.spec.volumes ?? []).map((volume) => prepareVolume(root, volume, context));
      const images = prepared.flatMap(({ image }) => image ?? []);
      const summary = images.map(({ volume, sizeBytes }) => `${volume} of ${sizeBytes} bytes`).join(', ');
      const events = prepared.flatMap((each) => each.events);
      return { kind: 'done', facts: { images }, events, ...(summary !== '' && { summary }) };
    },
  };
}

function isDiskImage(value: unknown): value is DiskImage {
  if (!isRecord(value)) return false;
  const { volume, sizeBytes, wantedBytes } = value;
  return typeof volume === 'string' && typeof sizeBytes === 'number' && typeof wantedBytes === 'number';
}

/**
 * Asked right before its files are looked at in the thread of all VMs, which a claim whose server is gone would hold. Rejects with
 * StorageError; what else is wrong is said when the disk is made.
 */
async function untilAnswers(root: LauncherRoot, volume: string, uid: string, storage: Storage): Promise<void> {
  const user = { owner: uid, what: `volume ${volume} of VMI ${uid}` };
  try {
    await root.useRunning(disksDir, (disks) => {
      // Opened by its name alone: that asks no server.
      const directory = disks.directory(volume);
      return storage.answers(directory, user).finally(() => directory.close());
    });
  } catch (error) {
    if (error instanceof StorageError) throw error;
  }
}

const nothing: Prepared = { events: [] };

function prepareVolume(root: LauncherRoot, volume: Volume, context: HookContext): Prepared {
  if (!volume.hostDisk?.path) return nothing;
  try {
    return prepareDirectory(root, volume, context);
  } catch (cause) {
    throw diskError(volume.name, cause);
  }
}

function prepareDirectory(root: LauncherRoot, volume: Volume, { vmi, config }: HookContext): Prepared {
  const { name, hostDisk } = volume;
  if (name.includes('/')) throw new HostError('DISK_NAME', `${JSON.stringify(name)} is no name of a volume`);
  const mayCreate = hostDisk?.type === 'DiskOrCreate';
  const prepared = root.useRunning(`${disksDir}/${name}`, (directory) => {
    if (!directory.stat().isDirectory()) throw new HostError('DISK_REPLACED', `${directory.shown} is no directory`);
    const made = mayCreate ? createImage(directory, volume, config) : nothing;
    // Else it is a directory of the machine, which the VMI chose: giving it away would give away `/etc`.
    if (isNonRoot(vmi) && hostDisk?.path === claimImagePath(name)) giveToQemu(directory);
    return made;
  });
  if (prepared === undefined && mayCreate) {
    throw new HostError('NO_VOLUME_STATUS', `the launcher has no directory ${disksDir}/${name} below /var/run`);
  }
  return prepared ?? nothing;
}

function createImage(directory: SafePath, volume: Volume, config: ClusterConfig): Prepared {
  const file = path.posix.basename(volume.hostDisk?.path ?? '');
  const wanted = Math.floor(parseQuantity(volume.hostDisk?.capacity) ?? 0);
  const knownBytes = imageSize(directory, file);
  if (knownBytes !== undefined) {
    removeDraft(directory);
    return { image: imageOf(volume, knownBytes, wanted), events: [] };
  }
  // No file has more bytes than can be counted, and NaN is no number of them.
  if (!(wanted > 0)) {
    throw new HostError('DISK_TOO_LARGE', `hostDisk of volume ${volume.name} needs a capacity to be created`);
  }
  const { sizeBytes, events } = fittingSize(volume.name, wanted, freeBytes(directory, config), config);
  makeImage(directory, file, sizeBytes);
  return { image: imageOf(volume, sizeBytes, wanted), events };
}

/** A capacity that is no number of bytes is none. */
function imageOf({ name }: Volume, sizeBytes: number, wanted: number): DiskImage {
  return { volume: name, sizeBytes, wantedBytes: Number.isFinite(wanted) ? wanted : 0 };
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
function freeBytes(directory: SafePath, config: ClusterConfig): number {
  return Math.max(0, Math.floor(directory.freeBytes() - config.minimumReservePvcBytes));
}
