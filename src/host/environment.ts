import { readFileSync } from 'node:fs';
import { errorCode } from '../base/index.ts';

/** Of a program, as it was started: it may have changed its own copy since. Undefined when it has none of that name, or has ended. */
export function environmentValue(pid: number, name: string, procDir = '/proc'): string | undefined {
  try {
    const entries = readFileSync(`${procDir}/${pid}/environ`, 'utf8').split('\0');
    return entries.find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1);
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
}
