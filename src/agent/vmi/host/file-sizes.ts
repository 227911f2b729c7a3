import { LauncherRoot } from './launcher-root.ts';

/**
 * Sizes of plain files inside a launcher's container, as `HostFacts.fileSizes`. The tree below is the tenant's: links never lead
 * out of it, nothing but names and sizes is looked at, and what cannot be looked at has no size.
 */
export function launcherFileSizes(
  launcherPid: number,
  paths: readonly string[],
  procDir?: string,
): Readonly<Record<string, number>> {
  const root = new LauncherRoot(launcherPid, procDir);
  const sizes: Record<string, number> = {};
  for (const path of paths) {
    try {
      const size = root.use(path, (opened) => (opened.stat().isFile() ? opened.stat().size : undefined));
      if (size !== undefined) sizes[path] = size;
    } catch {
      // A loop of links, a directory that is closed to us: the launcher's business.
    }
  }
  return sizes;
}
