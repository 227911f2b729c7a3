import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../base/index.ts';

/** The keys of a secret that is mounted in the pod, in the order of their names. Throws the file system's error when it is not mounted. */
export async function readMountedSecret(dir: string): Promise<ReadonlyMap<string, Buffer>> {
  const keys = new Map<string, Buffer>();
  // The kubelet keeps the keys in a directory `..data`, which it exchanges as a whole.
  for (const name of (await readdir(dir)).filter((one) => !one.startsWith('..')).sort()) {
    const content = await readFile(path.join(dir, name)).catch((error: unknown) => {
      // The kubelet makes an empty directory where it is to mount a key that the secret does not have.
      if (errorCode(error) === 'EISDIR') return undefined;
      throw error;
    });
    if (content) keys.set(name, content);
  }
  return keys;
}
