// Bundles each program of src/bin to dist/bin, and the web page to dist/web.
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { bundlePage, bundlePrograms } from './bundle.mjs';

// What else is in src/bin is a part of these.
const { bin } = JSON.parse(readFileSync('package.json', 'utf8'));
const programs = Object.values(bin).map((file) => path.basename(file, '.js'));

rmSync('dist', { recursive: true, force: true });
await bundlePrograms(programs, 'dist/bin');
await bundlePage('dist/web');
writeFileSync('dist/commit', commit());

/** Of this tree, for `virt-node --version`; empty where there is no git. */
function commit() {
  const git = (...args) => spawnSync('git', args, { encoding: 'utf8' });
  const head = git('rev-parse', '--short=12', 'HEAD');
  if (head.status !== 0) return '';
  const isChanged = git('status', '--porcelain', '--untracked-files=no').stdout !== '';
  return `${head.stdout.trim()}${isChanged ? '-changed' : ''}\n`;
}
