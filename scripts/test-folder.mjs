// Where a run of tests has its bundles.
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';

/** A run in a container that has this tree mounted has other process ids; none takes as long. */
const keptMs = 24 * 3_600_000;

/**
 * An empty folder of this run alone, until its end: two runs side by side must not pull each other's bundles away, and programs that an earlier
 * process of the same id left would be tested in place of those of this tree. What others left, who were killed, goes after a day.
 * @param {string} root
 */
export function folderOfRun(root) {
  const folder = path.join(root, String(process.pid));
  mkdirSync(root, { recursive: true });
  for (const name of readdirSync(root)) {
    const other = path.join(root, name);
    if (other === folder || isLeft(other, Number(name))) remove(other);
  }
  mkdirSync(folder);
  process.once('exit', () => remove(folder));
  return folder;
}

const remove = (folder) => rmSync(folder, { recursive: true, force: true });

function isLeft(folder, pid) {
  const { mtimeMs } = statSync(folder, { throwIfNoEntry: false }) ?? { mtimeMs: Date.now() };
  return Date.now() - mtimeMs > keptMs && !isAlive(pid);
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code !== 'ESRCH';
  }
}
