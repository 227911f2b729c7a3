import { CodedError, errorCode, errorMessage } from '../../../../base/index.ts';
import { environmentValue, type SafePath } from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import { LauncherRoot } from '../launcher-root.ts';
import { type DhcpCache, dhcpCacheFile, readDhcpCache } from './dhcp-cache.ts';
import { removeFile, replaceInPlace } from './small-files.ts';

/** Below `/var/run` of the launcher; it writes there itself, so no link is followed. */
const directory = 'kubevirt-private';
const maxBytes = 256 * 1024;

/** What the agent and one launcher tell each other by files. */
export class LauncherFiles {
  readonly #root: LauncherRoot;
  readonly #pid: number;
  readonly #procDir: string | undefined;

  constructor(pid: number, procDir?: string) {
    this.#root = new LauncherRoot(pid, procDir);
    this.#pid = pid;
    this.#procDir = procDir;
  }

  /** A launcher without a pod of its own was started with QEMU's network stack: it wants no links. */
  get hasUserNetwork(): boolean {
    return environmentValue(this.#pid, 'VIRT_LAUNCHER_NETWORK', this.#procDir) === 'user';
  }

  /** Throws HostError POD_NETWORK. */
  writeDhcp({ file, text }: DhcpCache): void {
    const isThere = this.#use(file, (place) => {
      replaceInPlace(place, file, text);
      return true;
    });
    if (isThere) return;
    throw new HostError('POD_NETWORK', `the launcher has no directory ${directory} below /var/run for ${file}`);
  }

  /** Nothing when there is none, or none that can be used. */
  readDhcp(podLink: string): ReturnType<typeof readDhcpCache> {
    const file = dhcpCacheFile(podLink);
    try {
      return this.#root.useRunning(directory, (place) => readDhcpCache(place.readText(file, maxBytes))) ?? {};
    } catch {
      return {};
    }
  }

  /** Safe when there is none. */
  removeDhcp(podLink: string): void {
    const file = dhcpCacheFile(podLink);
    this.#use(file, (place) => removeFile(place, file));
  }

  #use<T>(file: string, use: (place: SafePath) => T): T | undefined {
    try {
      return this.#root.useRunning(directory, use);
    } catch (cause) {
      const reason = cause instanceof CodedError ? errorMessage(cause) : (errorCode(cause) ?? errorMessage(cause));
      throw new HostError('POD_NETWORK', `${file} of the launcher cannot be written: ${reason}`, { cause });
    }
  }
}
