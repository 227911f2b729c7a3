import { stat } from 'node:fs/promises';
import path from 'node:path';
import { rootMade } from './sandbox-script.ts';

/** When a pod came to be, as its files on this machine tell it. Milliseconds since the epoch; undefined: not that far, or not known. */
export interface SandboxTimes {
  /** Its first directory was made: volumes and network come next. */
  readonly begunMs: number | undefined;
  /** Its scripts were written: it is started. */
  readonly preparedMs: number | undefined;
  /** Its process 1 runs, in namespaces of its own. */
  readonly process1Ms: number | undefined;
  /** It has its own root directory: its program is started. */
  readonly rootMadeMs: number | undefined;
}

/** `podDir` is the pod's directory on this machine. Never rejects. */
export async function readSandboxTimes(podDir: string): Promise<SandboxTimes> {
  const writtenMs = async (name: string) => (await statOf(path.join(podDir, 'sandbox', name)))?.mtimeMs;
  const [begun, preparedMs, process1Ms, rootMadeMs] = await Promise.all([
    statOf(podDir),
    writtenMs('init.sh'),
    writtenMs('pid1'),
    writtenMs(rootMade),
  ]);
  // Some file systems do not keep it.
  const begunMs = begun && begun.birthtimeMs > 0 ? begun.birthtimeMs : undefined;
  return { begunMs, preparedMs, process1Ms, rootMadeMs };
}

function statOf(file: string) {
  return stat(file).catch(() => undefined);
}
