import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { type Allocation, DevicePluginError, type PluginDevice } from '../../../device-plugin/index.ts';
import type { DeviceRoots, DeviceSource, WatchedPaths } from './device-source.ts';
import { isThere } from './sysfs.ts';

export interface TokenSourceOptions {
  /** Ids are this and a number. */
  readonly name: string;
  /** Below `/dev`: `net/tun`. */
  readonly device: string;
  readonly count: number;
  /** The kernel loads the module when the device is opened. */
  readonly loadsModule: boolean;
}

/** One device file that any number of pods share: ids are tokens, and a change of the file's health is a change of all. */
export class TokenSource implements DeviceSource {
  readonly rescanMs = undefined;
  readonly #options: TokenSourceOptions;
  readonly #roots: DeviceRoots;
  #isLoaded: boolean;

  constructor(options: TokenSourceOptions, roots: DeviceRoots) {
    this.#options = options;
    this.#roots = roots;
    this.#isLoaded = !options.loadsModule;
  }

  async scan(): Promise<PluginDevice[]> {
    if (!this.#isLoaded) await this.#loadModule();
    const isHealthy = await isThere(this.#file);
    const { name, count } = this.#options;
    return Array.from({ length: count }, (_, index) => ({ id: `${name}${index}`, isHealthy }));
  }

  async allocate(): Promise<Allocation> {
    const hostPath = `/dev/${this.#options.device}`;
    if (!(await isThere(this.#file))) throw new DevicePluginError('DEVICE_UNUSABLE', `${hostPath} is not there`);
    return { devices: [{ hostPath, containerPath: hostPath, permissions: await this.#permissions() }] };
  }

  watchedPaths(): WatchedPaths {
    return { entries: [this.#file] };
  }

  get #file(): string {
    return path.join(this.#roots.devDir, this.#options.device);
  }

  /** With cgroups of version 2 access(2) fails in the container without `m`. */
  async #permissions(): Promise<string> {
    const isVersion2 = await isThere(path.join(this.#roots.sysDir, 'fs/cgroup/cgroup.controllers'));
    return isVersion2 ? 'rwm' : 'rw';
  }

  /** Whether that worked shows in what is there afterwards. */
  async #loadModule(): Promise<void> {
    this.#isLoaded = true;
    const opened = await open(this.#file, constants.O_RDWR | constants.O_NONBLOCK).catch(() => undefined);
    await opened?.close();
  }
}
