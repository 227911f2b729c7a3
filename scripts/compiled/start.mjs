#!/usr/bin/env node
// Runs the program in the folder of its name, compiled already where this Node.js takes what was kept; see scripts/bundle.mjs.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

const self = fileURLToPath(import.meta.url);
const filename = path.join(path.dirname(self), path.parse(self).name, 'program.cjs');

function kept() {
  try {
    return readFileSync(filename.replace(/cjs$/, 'cache'));
  } catch {
    // It is compiled as it runs.
    return undefined;
  }
}

const script = new Script(readFileSync(filename, 'latin1'), { filename, cachedData: kept() });
script.runInThisContext()(createRequire(filename), { exports: {} }, filename);
