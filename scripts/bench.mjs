// Bundles bench/ and the agent, and runs it: node scripts/bench.mjs [boot] [burst] [soak] [starts] [options], see docs/bench.md
import { spawnSync } from 'node:child_process';
import { bundleForRepository, bundleProgram } from './bundle.mjs';

await bundleForRepository(['bench/main.ts'], '.build/bench', 'bench');
// As it is shipped, from today's sources.
await bundleProgram('virt-handler', '.build/bench/virt-handler.mjs');
const { status } = spawnSync(
  process.execPath,
  ['--enable-source-maps', '.build/bench/main.mjs', ...process.argv.slice(2)],
  { stdio: 'inherit' },
);
process.exitCode = status ?? 1;
