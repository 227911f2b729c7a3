import { statSync } from 'node:fs';
import type { Clock } from '../../../base/index.ts';
import { readPlainFileSync } from '../../../host/index.ts';

/** Every pass of every VMI asks. */
const lookEveryMs = 5_000;
/** Parsing keeps the event loop waiting; the largest real files have a quarter of that. */
const maxBytes = 2 * 1024 * 1024;

/**
 * What a file says, looked at again when it has become another one. What cannot be read or understood any more keeps its last
 * meaning; undefined: it never had one. Never throws, unless `parse` does.
 */
export function followedFile<T>(
  file: string,
  parse: (text: string) => T | undefined,
  clock: Clock,
): () => T | undefined {
  let meaning: T | undefined;
  let identity: string | undefined;
  let lookedMs = Number.NEGATIVE_INFINITY;
  return () => {
    const nowMs = clock.monotonicMs();
    if (nowMs - lookedMs < lookEveryMs) return meaning;
    lookedMs = nowMs;
    try {
      const stats = statSync(file);
      const seen = `${stats.ino} ${stats.ctimeMs} ${stats.size}`;
      if (seen === identity || stats.size > maxBytes) return meaning;
      identity = seen;
      meaning = parse(readPlainFileSync(file, maxBytes)) ?? meaning;
    } catch {
      identity = undefined;
    }
    return meaning;
  };
}
