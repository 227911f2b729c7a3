// node scripts/setup.mjs <check|test|up|up-nodes|guests|cluster>
// The first thing that runs in a fresh clone: npm packages, Debian packages, build, demo guest, as far as the mode needs them.
// Plain Node.js without dependencies; says what it does and why; does nothing, in well under a second, when all is there.
import { pathToFileURL } from 'node:url';
import { ensureBuild, ensureDebian, ensureGuest, ensureInstaller } from './setup/build.mjs';
import { ensurePackages, ensureRootRights, packagesFor } from './setup/debian.mjs';
import { ensureNodeModules } from './setup/npm.mjs';
import { logFile, SetupError } from './setup/report.mjs';

const withPrograms = ['test', 'up', 'up-nodes', 'guests'];

/** Throws SetupError, whose message says what to do. */
export async function setUp(mode) {
  const table = packagesFor[mode];
  if (!table) throw new SetupError(`usage: node scripts/setup.mjs ${Object.keys(packagesFor).join('|')}`);
  if (mode.startsWith('up')) await ensureRootRights(table);
  await ensureNodeModules();
  await ensurePackages(table);
  if (!withPrograms.includes(mode)) return;
  await ensureBuild();
  await ensureGuest();
  if (mode === 'test') await ensureInstaller();
  if (mode === 'guests') await ensureDebian();
}

/** True when set-up went well; else says why not. */
export async function trySetUp(mode) {
  try {
    await setUp(mode);
    return true;
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    console.error(`set-up: ${error.message}\n(everything that was run: ${logFile})`);
    return false;
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  if (!(await trySetUp(process.argv[2] ?? ''))) process.exitCode = 1;
}
