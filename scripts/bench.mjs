// Bundles bench/ and runs it: node scripts/bench.mjs [--runs N] [--json FILE]
import { spawnSync } from 'node:child_process';
import { bundleForRepository } from './bundle.mjs';

await bundleForRepository(['bench/main.ts'], '.build/bench', 'bench');
const { status } = spawnSync(
  process.execPath,
  ['--enable-source-maps', '.build/bench/main.mjs', ...process.argv.slice(2)],
  { stdio: 'inherit' },
);
process.exitCode = status ?? 1;
