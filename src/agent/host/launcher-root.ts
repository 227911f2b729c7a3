import { type Stats, statSync } from 'node:fs';
import { errorCode } from '../../base/index.ts';
import { openInRoot, type SafePath } from '../../host/index.ts';

/** The user `qemu` in launcher images. */
export const qemuId = 107;

/** The file system of one launcher, as its own processes see it. Everything in it belongs to a tenant. */
export class LauncherRoot {
  readonly #root: string;

  constructor(pid: number, procDir = '/proc') {
    this.#root = `${procDir}/${pid}/root`;
  }

  /** Runs `use` on an opened place and closes it; undefined when there is no such place. */
  use<T>(path: string, use: (place: SafePath) => T): T | undefined {
    let place: SafePath;
    try {
      place = openInRoot(this.#root, path);
    } catch (error) {
      if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return undefined;
      throw error;
    }
    try {
      return use(place);
    } finally {
      place.close();
    }
  }

  /** Gives a place to the user qemu unless it has it already; false when there is none. */
  giveToQemu(path: string, mode?: number): boolean {
    const isThere = this.use(path, (place) => {
      const { uid, gid } = place.stat();
      if (uid !== qemuId || gid !== qemuId || mode !== undefined) place.setOwner(qemuId, qemuId, mode);
      return true;
    });
    return isThere ?? false;
  }

  /** The standalone node's launchers share the machine's own device directory: its owners are not ours to change. */
  sharesDevicesWith(hostDev: string): boolean {
    let own: Stats;
    try {
      own = statSync(hostDev);
    } catch {
      // A guarded process 1 hides the machine's devices from a pod; those of a launcher's container are its own anyway.
      return false;
    }
    return this.use('/dev', (dev) => dev.stat().dev === own.dev && dev.stat().ino === own.ino) ?? false;
  }
}
