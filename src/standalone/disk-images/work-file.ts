import { NodeError } from '../errors.ts';
import { ConfinedFailure, isNoSpace } from './confined.ts';
import { refused } from './detect.ts';

/** A file of a work directory, by its name there. */
export interface WorkFile {
  readonly dir: string;
  readonly name: string;
  /** How it is called to people. */
  readonly what: string;
}

/** What a program that read the image came to, as an error for people. */
export function imageError(error: unknown, what: string, problem: string): unknown {
  if (isNoSpace(error)) {
    return new NodeError('NO_SPACE', `${what}: the disk of this machine is full: free some space`, { cause: error });
  }
  if (!(error instanceof ConfinedFailure)) {
    const isSlow = error instanceof NodeError && error.code === 'TIMEOUT';
    return isSlow ? refused(what, `takes more time than any sound disk: ${error.message}`, error) : error;
  }
  if (error.signal === 'SIGXCPU' || error.signal === 'SIGKILL') {
    return refused(what, `takes more computing time or memory than any sound disk (${error.signal})`, error);
  }
  if (error.signal === 'SIGXFSZ') return refused(what, 'becomes larger than it may', error);
  return refused(what, `${problem}: ${error.words}`, error);
}
