import { type Key, parseKey } from '../../../api/index.ts';
import type { Label } from '../../../serving/index.ts';

/** The labels of a VMI where nothing more is published of it. */
export function named(key: Key): Label[] {
  const { namespace = '', name = '' } = parseKey(key) ?? {};
  return [
    ['namespace', namespace],
    ['name', name],
  ];
}
