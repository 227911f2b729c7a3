import path from 'node:path';
import { errorCode, errorMessage } from '../../../base/index.ts';
import { readPlainFile } from '../../../host/index.ts';
import type { Known } from './facts.ts';

const setting = 'kernel/sched_rt_runtime_us';

/** May real-time threads use all the time there is? `sysctlDir`: `/proc/sys`. */
export async function readRealtime(sysctlDir: string): Promise<Known<boolean>> {
  const file = path.join(sysctlDir, setting);
  try {
    return { kind: 'known', value: (await readPlainFile(file, 64)).trim() === '-1', from: file };
  } catch (error) {
    // A kernel built without it; upstream sets the label only where it reads -1.
    if (errorCode(error) === 'ENOENT') return { kind: 'known', value: false, from: `${file} (absent)` };
    return { kind: 'unknown', because: `${file}: ${errorMessage(error)}` };
  }
}
