// Bundles bench/, the agent and the launcher, and runs it: node scripts/bench.mjs [NAME]… [options], see docs/bench.md
import { spawn } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { endRemains } from './bench-remains.mjs';
import { bundleForRepository, bundlePrograms } from './bundle.mjs';
import { upstreamAgentCommand, upstreamController } from './upstream-parts.mjs';

// Before minutes of bundling: what is asked for may not be there.
const words = programArguments();

await bundleForRepository(['bench/main.ts'], '.build/bench', 'bench');
// As it is shipped, from today's sources.
const programs = ['virt-handler', 'virt-launcher', 'virt-controller'];
for (const name of programs) rmSync(path.join('.build/bench', name), { recursive: true, force: true });
await bundlePrograms(programs, '.build/bench', { extension: '.mjs', sourcemap: false });

// A process group and a directory of its own: however it ends, no API server, launcher, agent, proxy or node outlives it. Short for sockets' sake.
const directory = realpathSync(mkdtempSync(path.join(tmpdir(), 'b-')));
const bench = spawn(process.execPath, ['--enable-source-maps', '.build/bench/main.mjs', ...words], {
  stdio: 'inherit',
  detached: true,
  env: { ...process.env, TMPDIR: directory },
});

/** `--vs upstream` is the agent that `npm run test:upstream` builds; of the bench `controller` it is the controller, which is built where it is missing. */
function programArguments() {
  const given = process.argv.slice(2);
  const at = given.findIndex((word, index) => word === 'upstream' && given[index - 1] === '--vs');
  if (at < 0) return given;
  return given.with(at, given.includes('controller') ? upstreamController() : upstreamAgentCommand());
}

const ended = new Promise((resolve) => bench.once('exit', (code, signal) => resolve(code ?? signal)));
const signals = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);
for (const name of signals) process.once(name, () => endGroup());

function endGroup() {
  try {
    process.kill(-(bench.pid ?? 0), 'SIGKILL');
  } catch {
    // Nobody is left in it.
  }
}

const status = await ended;
endGroup();
endRemains(directory);
rmSync(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
process.exitCode = typeof status === 'number' ? status : 1;
