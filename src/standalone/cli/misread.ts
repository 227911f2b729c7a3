import { NodeError } from '../errors.ts';
import { toggles } from './flags.ts';

/** Names of arguments without dashes, and keys of yargs itself: it takes `--name` for a flag, and drops its value. */
const noFlags: ReadonlySet<string> = new Set(['_', '$0', 'name', 'reference', 'source', 'shell', 'target']);

/** `help stop` is `stop --help`, and a word after a flag that is on or off is NAME, be it `true`. */
export function asYargsReads(argv: readonly string[]): string[] {
  const words = argv[0] === 'help' ? [...argv.slice(1), '--help'] : argv;
  return words.map((word) => (toggles.has(word.slice(2)) && word.startsWith('--') ? `${word}=true` : word));
}

/** Throws NodeError USAGE for what yargs would take without a word for something else than what is written there. */
export function refuseMisread(argv: readonly string[]): void {
  for (const argument of argv) {
    // It drops all that follows: `stop -- --keep-vms` must not end VMs.
    if (argument === '--') throw new NodeError('USAGE', '--: no command takes words after it');
    const [, flag = '', value] = /^--?([^=]+)(?:=(.*))?$/s.exec(argument) ?? [];
    if (noFlags.has(flag)) throw new NodeError('USAGE', `Unknown argument: ${flag}`);
    // It takes every word but "true" for "off": a `--keep-vms=yes` must not end VMs.
    if (!toggles.has(flag) || value === undefined || value === 'true' || value === 'false') continue;
    throw new NodeError('USAGE', `--${flag}: ${JSON.stringify(value)} is neither true nor false`);
  }
}
