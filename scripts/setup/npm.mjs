// node_modules as package-lock.json says, by `npm ci` when it is not.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { quote, root, runLogged, SetupError, say } from './report.mjs';

const minimumNode = [20, 19];

export function checkNodeVersion() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [wantedMajor, wantedMinor] = minimumNode;
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) return;
  throw new SetupError(`Node.js ${process.versions.node} is too old: ${minimumNode.join('.')} or newer is needed`);
}

function readLock(file) {
  try {
    return JSON.parse(readFileSync(path.join(root, file), 'utf8')).packages ?? {};
  } catch {
    return undefined;
  }
}

/** npm writes what it installed to a lock of its own, last of all. Optional packages of other platforms may be missing. */
function isInstalled() {
  const wanted = readLock('package-lock.json');
  const found = readLock('node_modules/.package-lock.json');
  if (!wanted || !found) return false;
  return Object.entries(wanted).every(
    ([name, { version, optional }]) => name === '' || (found[name] ? found[name].version === version : optional),
  );
}

export async function ensureNodeModules() {
  checkNodeVersion();
  if (isInstalled()) return;
  say('installing npm packages as package-lock.json says (npm ci)');
  const args = ['ci', '--no-audit', '--no-fund', '--fetch-retries=2', '--fetch-timeout=60000'];
  const { code, tail } = await runLogged('npm', args);
  if (code === 0) return;
  const offline = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|network/i.test(tail);
  throw new SetupError(
    `npm ci failed${offline ? ': the npm registry cannot be reached (no network, or a proxy is needed)' : ''}:\n${quote(tail)}`,
  );
}
