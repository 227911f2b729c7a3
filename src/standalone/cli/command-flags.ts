import { NodeError } from '../errors.ts';
import { type CommandSpec, type Flag, specs } from './command-specs.ts';

export type Values = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Parsed {
  readonly flags: Values;
  readonly positional: readonly string[];
  readonly wantsHelp: boolean;
}

/** Throws NodeError USAGE. */
export function parseFlags(name: string, spec: CommandSpec, argv: readonly string[]): Parsed {
  const flags: Record<string, string | number | boolean | undefined> = {};
  for (const [flag, { fallback }] of Object.entries(spec.flags)) flags[flag] = fallback;
  const positional: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? '';
    if (argument === '--help' || argument === '-h') return { flags, positional, wantsHelp: true };
    if (!argument.startsWith('-') || argument === '-') {
      positional.push(argument);
      continue;
    }
    const { key, flag, inline } = findFlag(name, spec, argument);
    const text = inline ?? (flag.kind === 'switch' ? 'true' : argv[++at]);
    flags[key] = convert(key, flag, text);
  }
  return { flags, positional, wantsHelp: false };
}

function findFlag(name: string, spec: CommandSpec, argument: string) {
  const [, long, short, inline] = /^(?:--([a-z][a-z-]*)|-([a-z]))(?:=(.*))?$/s.exec(argument) ?? [];
  const found = Object.entries(spec.flags).find(
    ([key, flag]) => (long !== undefined && key === long) || (short !== undefined && flag.short === short),
  );
  if (found) return { key: found[0], flag: found[1], inline };
  throw new NodeError('USAGE', `unknown flag ${argument} of virt-node ${name}\n\n${commandUsage(spec)}`);
}

function convert(key: string, flag: Flag, text: string | undefined): string | number | boolean {
  if (text === undefined) throw new NodeError('USAGE', `--${key} needs a value`);
  if (flag.kind === 'text') return text;
  if (flag.kind === 'number') {
    if (/^\d{1,9}$/.test(text)) return Number(text);
    throw new NodeError('USAGE', `--${key}: ${JSON.stringify(text)} is no number`);
  }
  if (text === 'true' || text === 'false') return text === 'true';
  throw new NodeError('USAGE', `--${key}: ${JSON.stringify(text)} is neither true nor false`);
}

/** Of all commands. */
export function usage(): string {
  const lines = Object.values(specs).map(({ usage: line, help }) => `  virt-node ${line.padEnd(38)} ${help}`);
  return ['virt-node: a one-node KubeVirt on this machine', '', ...lines, '', 'Each takes --help.'].join('\n');
}

/** Of one command. */
export function commandUsage(spec: CommandSpec): string {
  const lines = Object.entries(spec.flags).map(([key, { help, fallback, short, kind }]) => {
    const flag = `--${key}${short ? `, -${short}` : ''}`;
    const shown = fallback === undefined || kind === 'switch' ? '' : ` (default ${fallback})`;
    return `  ${flag.padEnd(20)} ${help}${shown}`;
  });
  return [`usage: virt-node ${spec.usage}`, spec.help, ...lines].join('\n');
}
