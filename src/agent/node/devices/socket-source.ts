import path from 'node:path';
import { errorCode, errorMessage, type Logger } from '../../../base/index.ts';
import { type Allocation, DevicePluginError, type PluginDevice } from '../../../device-plugin/index.ts';
import { type LabelForContainers, openInRoot, openTrusted, type SafePath } from '../../../host/index.ts';
import type { DeviceSource, WatchedPaths } from './device-source.ts';
import type { DeviceOwner } from './usb-source.ts';

export interface SocketSourceOptions {
  /** Ids are this and a number. */
  readonly name: string;
  readonly count: number;
  /** The host's directory, as the container gets it. */
  readonly directory: string;
  readonly socketName: string;
  /** As this process sees it, when it does not see the directory at the same place. */
  readonly hostRoot?: string;
  /** Directory and socket are made this user's, and usable for containers, whenever the socket appears. */
  readonly owner?: DeviceOwner;
  /** False: offered as healthy whether the socket is there or not. */
  readonly isRequired: boolean;
}

/** A socket below the host's root is not watched: links in its path are the host's. */
const rescanMs = 10_000;

/** A socket of a daemon on the host that any number of pods share: a container gets its directory. */
export class SocketSource implements DeviceSource {
  readonly rescanMs: number | undefined;
  readonly #options: SocketSourceOptions;
  readonly #log: Logger;
  readonly #createLabel: () => Promise<LabelForContainers>;
  #label: LabelForContainers | undefined;
  #problem: string | undefined;

  /** `label`: asked for at the first need. */
  constructor(
    options: SocketSourceOptions,
    deps: { readonly log: Logger; readonly label: () => Promise<LabelForContainers> },
  ) {
    this.#options = options;
    this.#log = deps.log;
    this.#createLabel = deps.label;
    this.rescanMs = options.hostRoot === undefined ? undefined : rescanMs;
  }

  async scan(): Promise<PluginDevice[]> {
    const { name, count, isRequired, owner } = this.#options;
    if (owner) this.#label ??= await this.#createLabel();
    const problem = this.#look();
    if (problem !== this.#problem && problem) this.#log.warn({ reason: problem }, `${name}: its socket is not usable`);
    this.#problem = problem;
    const isHealthy = !isRequired || problem === undefined;
    return Array.from({ length: count }, (_, index) => ({ id: `${name}${index}`, isHealthy }));
  }

  async allocate(): Promise<Allocation> {
    const { directory, isRequired } = this.#options;
    const problem = isRequired ? this.#look() : undefined;
    if (problem !== undefined) throw new DevicePluginError('DEVICE_UNUSABLE', problem);
    return { mounts: [{ hostPath: directory, containerPath: directory, readOnly: false }] };
  }

  watchedPaths(): WatchedPaths {
    const { hostRoot, directory, socketName } = this.#options;
    return hostRoot === undefined ? { entries: [path.join(directory, socketName)] } : {};
  }

  /** Why the socket cannot be used; undefined: it can. */
  #look(): string | undefined {
    const { directory, socketName, owner } = this.#options;
    const shown = path.join(directory, socketName);
    let opened: SafePath | undefined;
    let socket: SafePath | undefined;
    try {
      opened = this.#openDirectory();
      socket = opened.child(socketName);
      if (!socket.stat().isSocket()) return `${shown} is not a socket`;
      if (owner) for (const each of [opened, socket]) this.#giveTo(each, owner);
      return undefined;
    } catch (error) {
      return errorCode(error) === 'ENOENT' ? `${shown} is not there` : `${shown}: ${errorMessage(error)}`;
    } finally {
      socket?.close();
      opened?.close();
    }
  }

  #giveTo(opened: SafePath, { uid, gid }: DeviceOwner): void {
    const stats = opened.stat();
    if (stats.uid !== uid || stats.gid !== gid) opened.setOwner(uid, gid);
    this.#label?.(opened);
  }

  #openDirectory(): SafePath {
    const { hostRoot, directory } = this.#options;
    return hostRoot === undefined ? openTrusted(directory) : openInRoot(hostRoot, directory);
  }
}
