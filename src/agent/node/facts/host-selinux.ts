import { join } from 'node:path';
import { errorCode, errorMessage, type Logger } from '../../../base/index.ts';
import { openTrusted, type SafePath, xattrReader } from '../../../host/index.ts';

export interface SelinuxOptions {
  /** The machine's root as this process sees it: `/proc/1/root` in a pod with the host's pid namespace. */
  readonly hostRoot: string;
  readonly procDir?: string;
}

/** SELinux label of a launcher by its pid; as `HostFacts.selinuxContext`. */
export type SelinuxContextOf = (launcherPid: number | undefined) => string;

/** There on every kernel that runs with SELinux, enforcing or not. */
const enforceFile = 'sys/fs/selinux/enforce';

/** A label is an ASCII text like `system_u:object_r:container_file_t:s0:c1,c2`. */
const label = /^[\x21-\x7e]{1,1024}$/;

/**
 * SELinux is looked for once: it goes or comes with a boot of the machine only. Upstream starts two processes in every
 * reconcile to learn that (pkg/virt-handler/vm.go, pkg/virt-handler/selinux).
 */
export async function selinuxContexts(options: SelinuxOptions, log: Logger): Promise<SelinuxContextOf> {
  if (!isThere(join(options.hostRoot, enforceFile))) return () => 'none';
  const { procDir = '/proc' } = options;
  try {
    const read = await xattrReader();
    return (pid) => (pid === undefined ? '' : labelOf(`${procDir}/${pid}/root`, read));
  } catch (error) {
    log.warn({ reason: errorMessage(error) }, 'SELinux is on, and labels of launchers cannot be read');
    return () => '';
  }
}

function isThere(file: string): boolean {
  try {
    openTrusted(file).close();
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return false;
    return true;
  }
}

type ReadAttribute = (opened: SafePath, name: string) => string | undefined;

/** Empty for a process that has ended. */
function labelOf(directory: string, read: ReadAttribute): string {
  let root: SafePath;
  try {
    root = openTrusted(directory);
  } catch {
    return '';
  }
  try {
    return checked(read(root, 'security.selinux'));
  } finally {
    root.close();
  }
}

function checked(text: string | undefined): string {
  return text !== undefined && label.test(text) ? text : '';
}
