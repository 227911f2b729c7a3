import { createHash } from 'node:crypto';
import type { ConsolePast } from '../../../console/index.ts';
import {
  isProcessAlive,
  oneElement,
  openNoFollow,
  type ProcessId,
  parseLogStart,
  type SafePath,
} from '../../../host/index.ts';

/** In the launcher's private directory of the VMI; the launcher keeps it, and its older part, from growing. */
const fileName = 'virt-serial0-log';

export interface SerialLogPlace {
  readonly launcher: ProcessId;
  /** In its private directory, named after the UID of the VMI. */
  readonly directory: string;
}

/**
 * The last bytes that the guest wrote to its serial console since its launcher began, at most `maxBytes`, and where they stand in all that it
 * wrote. The file is a tenant's: no link is followed, and what it says of itself proves nothing. Undefined: nothing is logged, or
 * nothing was written yet.
 */
export async function readSerialLog(
  { launcher, directory }: SerialLogPlace,
  maxBytes: number,
  procDir: string,
): Promise<ConsolePast | undefined> {
  const below = ['run', 'kubevirt-private', oneElement(directory)].join('/');
  const home = openNoFollow(`${procDir}/${launcher.pid}/root`, below);
  try {
    if (!isProcessAlive(launcher)) return undefined;
    const current = home.child(fileName);
    try {
      const { size, bytes } = await current.lastBytes(maxBytes);
      const start = startOf(home);
      if (start + size === 0) return undefined;
      const older = bytes.length < maxBytes && start > 0 ? await olderPart(home, maxBytes - bytes.length) : [];
      return { line: lineOf(directory, current), end: start + size, bytes: Buffer.concat([...older, bytes]) };
    } finally {
      current.close();
    }
  } finally {
    home.close();
  }
}

/** How many bytes were taken away at the beginning. */
function startOf(home: SafePath): number {
  try {
    return parseLogStart(home.readText(`${fileName}.start`, 15));
  } catch {
    return 0;
  }
}

/** What was taken away last, as far as it is kept. */
async function olderPart(home: SafePath, maxBytes: number): Promise<Buffer[]> {
  try {
    const older = home.child(`${fileName}.1`);
    return [
      await older
        .lastBytes(maxBytes)
        .then(({ bytes }) => bytes)
        .finally(() => older.close()),
    ];
  } catch {
    return [];
  }
}

/** Another log has another one: of another guest, of the same one at another node, of its next start. */
function lineOf(directory: string, log: SafePath): string {
  const { dev, ino } = log.identity();
  return createHash('sha256').update(`${directory} ${dev} ${ino} ${log.stat().birthtimeMs}`).digest('base64url');
}
