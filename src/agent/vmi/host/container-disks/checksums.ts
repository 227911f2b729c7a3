import { crc32 } from 'node:zlib';
import type { VirtualMachineInstance } from '../../../../api/index.ts';
import { errorMessage, type Logger, memberAt } from '../../../../base/index.ts';
import type { SafePath } from '../../../../host/index.ts';
import type { ImageChecksums } from '../work/index.ts';
import type { WantedFile } from './wanted-disks.ts';

const chunkBytes = 1024 * 1024;

/** A file that is mounted, and what opens it. */
export interface SummedFile {
  readonly owner: WantedFile['owner'];
  readonly open: () => SafePath;
}

interface Entry {
  readonly aborting: AbortController;
  sums: ImageChecksums | undefined;
}

/**
 * CRC-32 sums of images, which older agents compare (upstream keeps them for updates from those: pkg/virt-handler/vm.go,
 * updateChecksumInfo). Whole images are read, so in the background, one at a time, once per VMI and process.
 */
export class Checksums {
  readonly #entries = new Map<string, Entry>();
  readonly #log: Logger;
  #last: Promise<void> = Promise.resolve();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Undefined while they are computed; it begins with the first question. */
  of(uid: string, files: () => readonly SummedFile[]): ImageChecksums | undefined {
    const known = this.#entries.get(uid);
    if (known) return known.sums;
    const entry: Entry = { aborting: new AbortController(), sums: undefined };
    this.#entries.set(uid, entry);
    const { signal } = entry.aborting;
    this.#last = this.#last.then(async () => {
      try {
        if (!signal.aborted) entry.sums = await sumsOf(files(), signal);
      } catch (error) {
        if (!signal.aborted) this.#log.warn({ uid, reason: errorMessage(error) }, 'images have no checksums');
      }
    });
    return undefined;
  }

  forget(uid: string): void {
    this.#entries.get(uid)?.aborting.abort();
    this.#entries.delete(uid);
  }
}

/** Of what is in the spec. */
export function lacksChecksums(vmi: VirtualMachineInstance): boolean {
  const disks = new Set((vmi.spec.volumes ?? []).flatMap(({ name, containerDisk }) => (containerDisk ? [name] : [])));
  const volumes = (vmi.status?.volumeStatus ?? []).filter(({ name }) => disks.has(name));
  if (volumes.some((volume) => !memberAt(volume, 'containerDiskVolume', 'checksum'))) return true;
  const container = vmi.spec.domain.firmware?.kernelBoot?.container;
  const has = (info: string) => Boolean(memberAt(vmi.status, 'kernelBootStatus', info, 'checksum'));
  return Boolean((container?.kernelPath && !has('kernelInfo')) || (container?.initrdPath && !has('initrdInfo')));
}

async function sumsOf(files: readonly SummedFile[], signal: AbortSignal): Promise<ImageChecksums> {
  const volumes: Record<string, number> = {};
  const boot: { kernel?: number; initrd?: number } = {};
  for (const { owner, open } of files) {
    const sum = await sumOf(open, signal);
    if (owner.kind === 'volume') volumes[owner.volume] = sum;
    else boot[owner.kind] = sum;
  }
  return { volumes, ...boot };
}

async function sumOf(open: () => SafePath, signal: AbortSignal): Promise<number> {
  const file = open();
  try {
    let sum = 0;
    for await (const chunk of file.content(chunkBytes)) {
      signal.throwIfAborted();
      sum = crc32(chunk, sum);
    }
    return sum;
  } finally {
    file.close();
  }
}
