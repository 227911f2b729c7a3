import { readFileSync } from 'node:fs';

/** Seeds that once failed, with what they found. */
export function regressionSeeds(): { readonly seed: number; readonly found: string }[] {
  const lines = readFileSync('test/simulator/regression-seeds.txt', 'utf8').split('\n');
  return lines.flatMap((line) => {
    const match = /^(\d+)\s+(.+)$/.exec(line);
    return match?.[1] && match[2] ? [{ seed: Number(match[1]), found: match[2] }] : [];
  });
}
