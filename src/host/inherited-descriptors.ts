import { closeSync, readdirSync, readFileSync } from 'node:fs';
import { errorCode } from '../base/index.ts';

/** Of `flags` in /proc/self/fdinfo, see proc(5) and open(2). */
export const closeOnExec = 0o2000000;

/**
 * Closes what the program that started this process left open besides standard input, output and error. All that Node.js opens is closed when
 * another program is executed; what was inherited goes on to every program that this one starts, and from there into pods. (Node.js
 * sees to the first sixteen, and to those that follow without a gap.) Call it first: no part of this program has opened any yet.
 */
export function closeInheritedDescriptors(): void {
  for (const name of readdirSync('/proc/self/fdinfo')) {
    if (Number(name) > 2 && isInherited(name)) closeSync(Number(name));
  }
}

/** False for the one that the list was read with: it is gone. */
function isInherited(name: string): boolean {
  try {
    const [, flags = '0'] = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${name}`, 'utf8')) ?? [];
    return (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}
