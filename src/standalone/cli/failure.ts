import { errorCode, errorMessage } from '../../base/index.ts';
import { NodeError } from '../errors.ts';

/** What who started a command can do about an error of the system. */
const advice: Readonly<Record<string, string>> = {
  EACCES: 'use sudo, or give it to this user',
  EPERM: 'use sudo',
  EROFS:
    'its file system is mounted read-only: see in the kernel log why, or choose another directory with --state-dir',
  ENOSPC: 'the disk is full: free some space there',
  EDQUOT: 'the quota is used up: free some space there',
  EIO: 'the disk fails: see in the kernel log why',
  EMFILE: 'too many files are open: raise `ulimit -n`',
  ENFILE: 'too many files are open on this machine',
};

/** One line (of a wrong use: with the right one below) that says why a command failed, and what to do; never a trace. */
export function failureText(error: unknown): string {
  if (error instanceof AggregateError) return [error.message, ...error.errors.map(failureText)].join(': ');
  if (error instanceof NodeError) return error.message;
  const known = advice[errorCode(error) ?? ''];
  return known === undefined ? errorMessage(error) : `${errorMessage(error)}: ${known}`;
}
