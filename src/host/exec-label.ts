import { writeFileSync } from 'node:fs';

/** Of the calling thread: what it starts until it says otherwise runs under this label (`setexeccon` of libselinux). */
const ownFile = '/proc/thread-self/attr/exec';
/** The kernel takes a line end alone for "no label". */
const none = '\n';

/**
 * Runs `start`, which starts a program under a label of SELinux. It is started on the calling thread, so it has it. The process is aborted should
 * the way back fail: all it started later would run as a tenant's container. Throws what `start` throws, or the kernel's
 * error: SELinux does not let this process change to the label.
 */
export function underExecLabel<T>(label: string, start: () => T, file = ownFile): T {
  writeFileSync(file, label);
  try {
    return start();
  } finally {
    try {
      writeFileSync(file, none);
    } catch {
      process.abort();
    }
  }
}
