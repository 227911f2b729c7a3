// npm run up [-- --once] [-- --nodes 2]   Set-up, then `virt-node up`: a whole KubeVirt on this machine with a VM that boots.
import { spawn } from 'node:child_process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { trySetUp } from './setup.mjs';

const program = fileURLToPath(new URL('../dist/bin/virt-node.js', import.meta.url));
const args = ['up', ...process.argv.slice(2)];

// Guests move between nodes by a program that a single node does without; what is wrong with the flag says virt-node.
const hasNodes = /(^| )--nodes[= ][2-9]/.test(args.join(' '));

if (!(await trySetUp(hasNodes ? 'up-nodes' : 'up'))) process.exitCode = 1;
else if (process.getuid?.() === 0) {
  // In this very process: signals then need no passing on.
  process.argv = [process.execPath, program, ...args];
  await import(pathToFileURL(program).href);
} else {
  // Set-up has made sure that sudo works without a password.
  const child = spawn('sudo', ['-n', process.execPath, program, ...args], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code) => {
    process.exitCode = code ?? 1;
  });
}
