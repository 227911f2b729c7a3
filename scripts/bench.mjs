// Bundles bench/ and runs it: node scripts/bench.mjs [--runs N] [--json FILE]
import { spawnSync } from 'node:child_process';
import { build } from 'esbuild';

const outfile = '.build/bench/main.mjs';
await build({
  entryPoints: ['bench/main.ts'],
  outfile,
  bundle: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  target: 'node20.19',
  sourcemap: 'inline',
  logLevel: 'warning',
});
const { status } = spawnSync(process.execPath, ['--enable-source-maps', outfile, ...process.argv.slice(2)], {
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
