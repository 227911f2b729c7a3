// Bundles each program of src/bin to dist/bin, and the web page to dist/web.
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { bundlePage, bundlePrograms } from './bundle.mjs';

const programs = readdirSync('src/bin')
  .filter((file) => file.endsWith('.ts'))
  .map((file) => path.basename(file, '.ts'));

rmSync('dist', { recursive: true, force: true });
await bundlePrograms(programs, 'dist/bin');
await bundlePage('dist/web');
