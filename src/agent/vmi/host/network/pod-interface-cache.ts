import { isIP } from 'node:net';
import path from 'node:path';
import { CodedError, errorCode, isRecord, listOf, whyUnsafe } from '../../../../base/index.ts';
import { openTrusted, type SafePath } from '../../../../host/index.ts';
import { removeFile, replaceInPlace } from './small-files.ts';

export type NetworkState = 'pending' | 'started' | 'finished';

/** What is kept of one network of a VMI (pkg/network/cache/podinterface.go). */
export interface PodInterface {
  readonly iface?: unknown;
  /** The main one first. */
  readonly podIps: readonly string[];
  readonly state: NetworkState;
}

/** In the numbers of the file. */
const states: readonly NetworkState[] = ['pending', 'started', 'finished'];
const directoryName = 'network-info-cache';
const directoryMode = 0o750;
const maxBytes = 256 * 1024;
const maxDepth = 24;
const maxIps = 16;
/** What is left is found by later looks. */
const maxUids = 4096;

/**
 * Upstream's files of what was found and done per network: `network-info-cache/<uid>/<network>` in the agent's private directory. An agent of
 * either kind goes on with what the other left. A file that cannot be used is none.
 */
export class PodInterfaceCache {
  readonly #privateDir: string;

  constructor(privateDir: string) {
    this.#privateDir = privateDir;
  }

  read(uid: string, network: string): PodInterface | undefined {
    return this.#within(uid, (directory) => {
      try {
        return decode(directory.readText(network, maxBytes));
      } catch (error) {
        if (error instanceof CodedError || errorCode(error) === 'ENOENT' || error instanceof SyntaxError)
          return undefined;
        throw error;
      }
    });
  }

  /** Throws the system's error. */
  write(uid: string, network: string, { iface, podIps, state }: PodInterface): void {
    const stateNumber = states.indexOf(state);
    const [podIP] = podIps;
    const record = {
      ...(iface !== undefined && { iface }),
      ...(podIP !== undefined && { podIP, podIPs: podIps }),
      ...(stateNumber > 0 && { networkState: stateNumber }),
    };
    const directory = this.#made(uid);
    try {
      replaceInPlace(directory, network, JSON.stringify(record, null, 2));
    } finally {
      directory.close();
    }
  }

  /** Safe when there is none. */
  remove(uid: string, network: string): void {
    this.#within(uid, (directory) => removeFile(directory, network));
  }

  /** UIDs with files. */
  uids(): string[] {
    const all = opened(() => openTrusted(path.join(this.#privateDir, directoryName)));
    try {
      return all?.someNames(maxUids) ?? [];
    } finally {
      all?.close();
    }
  }

  /** All of a VMI's, whatever it is. Safe when there is none. */
  removeAll(uid: string): void {
    const all = opened(() => openTrusted(path.join(this.#privateDir, directoryName)));
    try {
      if (all) removeTree(all, uid);
    } finally {
      all?.close();
    }
  }

  #within<T>(uid: string, use: (directory: SafePath) => T): T | undefined {
    const directory = opened(() => {
      const all = openTrusted(path.join(this.#privateDir, directoryName));
      try {
        return all.directory(uid);
      } finally {
        all.close();
      }
    });
    try {
      return directory && use(directory);
    } finally {
      directory?.close();
    }
  }

  #made(uid: string): SafePath {
    const privateDir = openTrusted(this.#privateDir);
    try {
      const all = madeIn(privateDir, directoryName);
      try {
        return madeIn(all, uid);
      } finally {
        all.close();
      }
    } finally {
      privateDir.close();
    }
  }
}

/** Undefined when it is not there, or something else is. */
function opened(open: () => SafePath): SafePath | undefined {
  try {
    return open();
  } catch (error) {
    if (error instanceof CodedError || ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
}

/** Of a directory that only this node's programs write to. */
function removeTree(parent: SafePath, name: string): void {
  try {
    removeFile(parent, name);
  } catch (error) {
    if (errorCode(error) !== 'EISDIR') throw error;
    const directory = parent.directory(name);
    try {
      for (const each of directory.names()) removeTree(directory, each);
    } finally {
      directory.close();
    }
    parent.removeDirectory(name);
  }
}

function madeIn(parent: SafePath, name: string): SafePath {
  try {
    parent.makeDirectory(name, directoryMode);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
  return parent.directory(name);
}

function decode(text: string): PodInterface | undefined {
  const value: unknown = JSON.parse(text);
  if (!isRecord(value) || whyUnsafe(value, maxDepth) !== undefined) return undefined;
  const { iface, podIP, podIPs, networkState } = value;
  const ips = [podIP, ...listOf(podIPs)].filter((ip) => typeof ip === 'string' && isIP(ip) > 0);
  return {
    ...(isRecord(iface) && { iface }),
    podIps: [...new Set(ips as string[])].slice(0, maxIps),
    state: states[Number(networkState ?? 0)] ?? 'pending',
  };
}
