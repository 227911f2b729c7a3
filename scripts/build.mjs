// Bundles each program of src/bin to dist/bin, and the web page to dist/web.
import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { bundlePage, bundlePrograms } from './bundle.mjs';

// What else is in src/bin is a part of these.
const { bin } = JSON.parse(readFileSync('package.json', 'utf8'));
const programs = Object.values(bin).map((file) => path.basename(file, '.js'));

rmSync('dist', { recursive: true, force: true });
await bundlePrograms(programs, 'dist/bin');
await bundlePage('dist/web');
