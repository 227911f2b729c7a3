import { getSystemErrorName } from 'node:util';
import type { BlockDevice } from './cgroups/index.ts';
import { pathOfEntry, type SafePath } from './safe-path.ts';

const blockDevice = 0o060000;

/** Of `Stats.rdev`: makedev(3) spreads both numbers over 64 bits. */
export function deviceNumbersOf(rdev: number): BlockDevice {
  const dev = BigInt(rdev);
  const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & 0xfffff000n);
  const minor = (dev & 0xffn) | ((dev >> 12n) & 0xffffff00n);
  return { major: Number(major), minor: Number(minor) };
}

function rdevOf({ major, minor }: BlockDevice): bigint {
  const [high, low] = [BigInt(major), BigInt(minor)];
  return ((high & 0xfffff000n) << 32n) | ((high & 0xfffn) << 8n) | ((low & 0xffffff00n) << 12n) | (low & 0xffn);
}

/**
 * Makes nodes of block devices; Node.js has no call for it. What it gives throws an error with the system's code: EEXIST when
 * anything of that name is there, a link that leads nowhere, too. Rejects when the C library cannot be loaded.
 */
export async function deviceNodeMaker(): Promise<
  (directory: SafePath, name: string, device: BlockDevice, mode: number) => void
> {
  const { default: koffi } = await import('koffi');
  const mknod = koffi.load(null).func('int mknod(const char *path, uint mode, uint64_t dev)');
  return (directory, name, device, mode) => {
    if (mknod(pathOfEntry(directory, name), blockDevice | (mode & 0o777), rdevOf(device)) === 0) return;
    const code = getSystemErrorName(-koffi.errno());
    throw Object.assign(new Error(`${directory.shown}/${name} cannot be made: ${code}`), { code });
  };
}
