import { styleText } from 'node:util';

export type Tone = 'good' | 'bad' | 'waiting' | 'soft';
/** Gives the text as it is to be shown. */
export type Paint = (text: string, tone: Tone) => string;

export interface Terminal {
  readonly isTTY?: boolean | undefined;
}

const colours = { good: 'green', bad: 'red', waiting: 'yellow', soft: 'dim' } as const;

/** Leaves everything as it is. */
export const plain: Paint = (text) => text;

/** Colours on a terminal; none when piped, with `--no-color`, on a dumb terminal, or as https://no-color.org says. */
export function paintFor(
  stream: Terminal,
  env: Readonly<Record<string, string | undefined>>,
  argv: readonly string[],
): Paint {
  const isWanted = !argv.some((word) => word === '--no-color' || word === '--no-color=true');
  if (!stream.isTTY || !isWanted || env.NO_COLOR || env.TERM === 'dumb') return plain;
  return (text, tone) => styleText(colours[tone], text, { validateStream: false });
}

const good = /^(?:running|ready|true|succeeded|works)\b/i;
const bad =
  /^(?:not running|failed|error\w*|crashloopbackoff|unknown|no|lost|not ready|datavolumeerror|errimagepull|imagepullbackoff|quarantined|problem)\b/i;
const waiting =
  /^(?:pending|scheduling|scheduled|starting|stopping|paused|migrating|provisioning|waiting\w*|terminating)\b/i;

/** Tone of a word about a state; undefined: none. */
export function toneOf(state: string): Tone | undefined {
  if (bad.test(state)) return 'bad';
  if (good.test(state)) return 'good';
  return waiting.test(state) ? 'waiting' : undefined;
}

/** Of a cell that tells a state; padded or not. */
export function painted(paint: Paint, text: string): string {
  const tone = toneOf(text.trim());
  return tone === undefined ? text : paint(text, tone);
}
