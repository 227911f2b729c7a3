import path from 'node:path';
import { errorCode, errorMessage, type Logger } from '../base/index.ts';
import { readPlainFileSync } from './plain-file.ts';
import type { SafePath } from './safe-path.ts';
import { xattrReader, xattrWriter } from './xattr.ts';

/** What containers may use; the same as in pkg/virt-handler/selinux/labels.go. */
const containerLabel = 'system_u:object_r:container_file_t:s0';
const attribute = 'security.selinux';
const enforceFile = 'sys/fs/selinux/enforce';

/** Throws when SELinux is enforcing and the label cannot be set: containers could not use the place. */
export type LabelForContainers = (opened: SafePath) => void;

/** Sets SELinux' label on a host that runs with it; on others it does nothing, and loads nothing. */
export async function containerLabeller(hostRoot: string, log: Logger): Promise<LabelForContainers> {
  const enforce = path.join(hostRoot, enforceFile);
  if (enforcing(enforce) === undefined) return () => undefined;
  const [read, write] = [await xattrReader(), await xattrWriter()];
  return (opened) => {
    if (read(opened, attribute) === containerLabel) return;
    try {
      write(opened, attribute, containerLabel);
    } catch (error) {
      const reason = `${opened.shown}: ${errorMessage(error)}`;
      if (enforcing(enforce)) throw new Error(reason, { cause: error });
      log.warn({ reason }, 'a label of SELinux could not be set');
    }
  };
}

/** `hostRoot`: the machine's root directory as this process sees it. */
export function hasSelinux(hostRoot: string): boolean {
  return enforcing(path.join(hostRoot, enforceFile)) !== undefined;
}

/** Undefined: the kernel runs without SELinux. */
function enforcing(file: string): boolean | undefined {
  try {
    return readPlainFileSync(file, 16).trim() === '1';
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw error;
  }
}
