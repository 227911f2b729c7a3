// Lines for the person who waits, and commands whose output goes to a log instead.
import { spawn } from 'node:child_process';
import { appendFileSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const logFile = path.join(root, '.cache/setup.log');

/** What set-up throws on purpose: its message is the whole story for the user. */
export class SetupError extends Error {}

const startMs = performance.now();

export function say(text) {
  console.log(`[${((performance.now() - startMs) / 1000).toFixed(1).padStart(5)} s] ${text}`);
}

/** Runs a command with its output in the log. Gives exit code and the last lines. */
export async function runLogged(command, args, env = process.env) {
  mkdirSync(path.dirname(logFile), { recursive: true });
  const log = (chunk) => appendFileSync(logFile, chunk);
  log(`\n$ ${command} ${args.join(' ')}\n`);
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let tail = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        log(chunk);
        tail = (tail + chunk).slice(-4000);
      });
    }
    child.on('error', (error) => resolve({ code: 127, tail: error.message }));
    child.on('close', (code) => resolve({ code: code ?? 1, tail: tail.trimEnd() }));
  });
}

/** The last lines, indented. */
export function quote(text, lines = 12) {
  return text
    .split('\n')
    .slice(-lines)
    .map((line) => `    ${line}`)
    .join('\n');
}
