import { closeSync, openSync } from 'node:fs';
import path from 'node:path';
import { WireError } from './errors.ts';

/** `sun_path` has 108 bytes, the last one is NUL. Node.js 20 silently truncates what is longer. */
export const maxUnixPathBytes = 107;

/** Linux' O_PATH; Node.js has no constant for it. */
const openPathOnly = 0o10000000;

export interface UnixPath {
  /** A path that fits into a socket address; valid until `close`. */
  readonly path: string;
  /** The same as a gRPC target. */
  readonly target: string;
  /** Safe to call twice. */
  close(): void;
}

/**
 * A usable name for a socket path of any length: a long one is reached through a descriptor of its directory. Keep it
 * open as long as a client may dial, bind or remove the path.
 * Throws WireError PATH_TOO_LONG, and the file system's error when a long path's directory cannot be opened.
 */
export function unixTarget(socketPath: string): UnixPath {
  if (Buffer.byteLength(socketPath) <= maxUnixPathBytes) return asUnixPath(socketPath, undefined);
  const fd = openSync(path.dirname(socketPath), openPathOnly);
  const short = `/proc/self/fd/${fd}/${path.basename(socketPath)}`;
  if (Buffer.byteLength(short) > maxUnixPathBytes) {
    closeSync(fd);
    throw new WireError('PATH_TOO_LONG', `the name of socket ${socketPath} does not fit into a socket address`);
  }
  return asUnixPath(short, fd);
}

function asUnixPath(short: string, fd: number | undefined): UnixPath {
  let open = fd;
  return {
    path: short,
    target: `unix:${short}`,
    close() {
      if (open !== undefined) closeSync(open);
      open = undefined;
    },
  };
}
