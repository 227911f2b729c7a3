import { errorMessage } from '../base/index.ts';

type GetXAttr = (path: string, name: string, value: Buffer, size: number) => number;

const maxBytes = 4096;

/**
 * Reads extended attributes: Node.js has no call for them. Loads the C library's at the first use, so make one only where there
 * is something to read. Rejects when the library cannot be loaded.
 */
export async function xattrReader(): Promise<(path: string, name: string) => string | undefined> {
  let getxattr: GetXAttr;
  try {
    const { default: koffi } = await import('koffi');
    getxattr = koffi
      .load(null)
      .func('long getxattr(const char *path, const char *name, _Out_ uint8_t *value, size_t size)') as GetXAttr;
  } catch (cause) {
    throw new Error(`extended attributes cannot be read: ${errorMessage(cause)}`, { cause });
  }
  return (path, name) => {
    const value = Buffer.alloc(maxBytes);
    const length = getxattr(path, name, value, value.length);
    if (length < 0) return undefined;
    const end = value.indexOf(0);
    return value.subarray(0, end >= 0 && end < length ? end : length).toString();
  };
}
