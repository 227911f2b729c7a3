import { deviceNumbersOf, type SafePath, type StandardRule } from '../../../../host/index.ts';
import { LauncherRoot } from '../launcher-root.ts';

/** What container runtimes let every container have, by the OCI runtime specification (config-linux.md, default devices). */
const always: readonly StandardRule[] = [
  { type: 'char', onlyMake: true },
  { type: 'block', onlyMake: true },
  ...[3, 5, 7, 8, 9].map((minor) => ({ type: 'char', major: 1, minor }) as const),
  ...[0, 1, 2].map((minor) => ({ type: 'char', major: 5, minor }) as const),
  { type: 'char', major: 136 },
  { type: 'char', major: 10, minor: 200 },
];

const maxNodes = 1024;
const maxDepth = 4;

/** With every device that is in the launcher's own /dev: claims, and what device plugins gave it. */
export function standardDevices(launcherPid: number, procDir: string): StandardRule[] {
  const rules = new LauncherRoot(launcherPid, procDir).use('/dev', (place) => rulesIn(place, 0)) ?? [];
  return [...always, ...rules].slice(0, maxNodes);
}

function rulesIn(directory: SafePath, depth: number): StandardRule[] {
  return directory.someNames(maxNodes).flatMap((name) => {
    const entry = directory.entry(name);
    try {
      const stat = entry.stat();
      if (stat.isDirectory()) return depth < maxDepth && name !== 'pts' ? rulesIn(entry, depth + 1) : [];
      if (!stat.isBlockDevice() && !stat.isCharacterDevice()) return [];
      return [{ type: stat.isBlockDevice() ? 'block' : 'char', ...deviceNumbersOf(stat.rdev) } as const];
    } finally {
      entry.close();
    }
  });
}
