import { CodedError } from './errors.ts';
import { parseGoDurationMs } from './go-duration.ts';

/** A command line as Go's pflag reads it: `--name value`, `--name=value`, `-v 3`, a bare `--bool`. */
export interface FlagTable {
  readonly [name: string]: FlagSpec;
}

export type FlagSpec = { readonly help: string; readonly short?: string } & (
  | { readonly kind: 'string'; readonly fallback: string }
  | { readonly kind: 'bool'; readonly fallback: boolean }
  | { readonly kind: 'int'; readonly fallback: number }
  /** Go duration (`30s`, `1m30s`); the value is in milliseconds. */
  | { readonly kind: 'duration'; readonly fallback: number }
  /** One value per use; the first use replaces the default. */
  | { readonly kind: 'list'; readonly fallback: readonly string[] }
);

type ValueOf<Spec> = Spec extends { kind: 'string' }
  ? string
  : Spec extends { kind: 'bool' }
    ? boolean
    : Spec extends { kind: 'list' }
      ? readonly string[]
      : number;

export type FlagValues<Table extends FlagTable> = { readonly [Name in keyof Table]: ValueOf<Table[Name]> };

/** The message says what is wrong with the command line. */
export class FlagError extends CodedError<'UNKNOWN_FLAG' | 'BAD_VALUE' | 'NO_VALUE' | 'UNEXPECTED_ARGUMENT'> {}

/** Undefined: the user asked for `--help`. Throws FlagError. */
export function parseGoFlags<Table extends FlagTable>(
  table: Table,
  argv: readonly string[],
): FlagValues<Table> | undefined {
  const values = new Map<string, unknown>(Object.entries(table).map(([name, { fallback }]) => [name, fallback]));
  const used = new Set<string>();
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? '';
    if (argument === '--help' || argument === '-h') return undefined;
    const { name, spec, inline } = findFlag(table, argument);
    let raw = inline;
    if (raw === undefined && spec.kind === 'bool') raw = 'true';
    if (raw === undefined) raw = argv[++at];
    if (raw === undefined) throw new FlagError('NO_VALUE', `flag needs an argument: ${argument}`);
    const value = parseValue(name, spec, raw);
    const list = used.has(name) ? (values.get(name) as readonly unknown[]) : [];
    values.set(name, spec.kind === 'list' ? [...list, value] : value);
    used.add(name);
  }
  return Object.fromEntries(values) as FlagValues<Table>;
}

/** One line per flag. */
export function flagUsage(program: string, table: FlagTable): string {
  const lines = Object.entries(table).map(([name, { kind, fallback, help, short }]) => {
    const left = `  ${short ? `-${short}, ` : '    '}--${name}${kind === 'bool' ? '' : ` ${kind}`}`;
    const shown = kind === 'duration' ? `${Number(fallback) / 1000}s` : JSON.stringify(fallback);
    return `${left.padEnd(46)} ${help} (default ${shown})`;
  });
  return [`Usage of ${program}:`, ...lines, ''].join('\n');
}

function findFlag(table: FlagTable, argument: string): { name: string; spec: FlagSpec; inline: string | undefined } {
  const match = /^(?:--([A-Za-z][\w-]*)(?:=(.*))?|-([A-Za-z])=?(.*))$/s.exec(argument);
  if (!match) {
    throw argument.startsWith('-')
      ? new FlagError('UNKNOWN_FLAG', `unknown flag: ${argument}`)
      : new FlagError('UNEXPECTED_ARGUMENT', `unexpected argument: ${argument}`);
  }
  const [, long, longValue, short, shortValue] = match;
  const name = long ?? Object.keys(table).find((each) => table[each]?.short === short);
  const spec = name !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;
  if (!name || !spec) throw new FlagError('UNKNOWN_FLAG', `unknown flag: ${argument}`);
  return { name, spec, inline: long ? longValue : shortValue || undefined };
}

function parseValue(name: string, { kind }: FlagSpec, raw: string): unknown {
  const value = convert(kind, raw);
  if (value === undefined) {
    throw new FlagError('BAD_VALUE', `invalid argument ${JSON.stringify(raw)} for --${name}: not a ${kind}`);
  }
  return value;
}

function convert(kind: FlagSpec['kind'], raw: string): unknown {
  switch (kind) {
    case 'string':
    case 'list':
      return raw;
    case 'bool':
      if (/^(1|t|true)$/i.test(raw)) return true;
      return /^(0|f|false)$/i.test(raw) ? false : undefined;
    case 'int':
      return /^-?\d{1,15}$/.test(raw) ? Number(raw) : undefined;
    case 'duration':
      return positiveMs(parseGoDurationMs(raw));
  }
}

function positiveMs(durationMs: number | undefined): number | undefined {
  return durationMs === undefined || durationMs < 0 ? undefined : Math.round(durationMs);
}
