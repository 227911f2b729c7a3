import util from 'node:util';
import { errorMessage } from '../base/index.ts';
import { pathOfOpened, type SafePath } from './safe-path.ts';

type GetXAttr = (path: string, name: string, value: Buffer, size: number) => number;
type SetXAttr = (path: string, name: string, value: Buffer, size: number, flags: number) => number;

const maxBytes = 4096;

/**
 * Reads extended attributes of opened places: Node.js has no call for them. Loads the C library's at the first use, so make one only where there
 * is something to read. Rejects when the library cannot be loaded.
 */
export async function xattrReader(): Promise<(opened: SafePath, name: string) => string | undefined> {
  const getxattr = (await loaded()).func(
    'long getxattr(const char *path, const char *name, _Out_ uint8_t *value, size_t size)',
  ) as GetXAttr;
  return (opened, name) => {
    const value = Buffer.alloc(maxBytes);
    const length = getxattr(pathOfOpened(opened), name, value, value.length);
    if (length < 0) return undefined;
    const end = value.indexOf(0);
    return value.subarray(0, end >= 0 && end < length ? end : length).toString();
  };
}

/** Writes them, with a NUL byte at the end as SELinux does; what it gives throws an Error that says why. Rejects as `xattrReader`. */
export async function xattrWriter(): Promise<(opened: SafePath, name: string, text: string) => void> {
  const library = await loaded();
  const setxattr = library.func(
    'int setxattr(const char *path, const char *name, const uint8_t *value, size_t size, int flags)',
  ) as SetXAttr;
  const { errno } = await koffiModule();
  return (opened, name, text) => {
    const value = Buffer.from(`${text}\0`);
    if (setxattr(pathOfOpened(opened), name, value, value.length, 0) === 0) return;
    throw new Error(`${name} cannot be set: ${util.getSystemErrorName(-errno())}`);
  };
}

async function loaded() {
  try {
    return (await koffiModule()).load(null);
  } catch (cause) {
    throw new Error(`extended attributes cannot be reached: ${errorMessage(cause)}`, { cause });
  }
}

async function koffiModule() {
  return (await import('koffi')).default;
}
