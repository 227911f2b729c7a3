import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Makes V8 collect the whole heap whenever it is called. */
export function collector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  return () => {
    if (typeof collect === 'function') collect();
  };
}

/**
 * What starting left behind goes. Before its first collection V8 has no measure of how much is in use, and waits until there is
 * much more. Takes some 20 ms.
 */
export function collectOnce(): void {
  collector()();
}
