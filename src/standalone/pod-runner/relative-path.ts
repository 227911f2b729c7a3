import path from 'node:path';
import { NodeError } from '../errors.ts';

/** A path that stays below where it begins, normalized. Throws NodeError POD_INVALID; `what` is the field. */
export function relativePath(text: string, what: string): string {
  const normal = path.posix.normalize(text);
  if (text === '' || path.posix.isAbsolute(text) || text.split('/').includes('..') || text.includes('\0')) {
    throw new NodeError('POD_INVALID', `${what} ${JSON.stringify(text)} must stay inside its volume`);
  }
  return normal;
}
