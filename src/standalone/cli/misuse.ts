import { NodeError } from '../errors.ts';
import { didYouMean } from './suggest.ts';

/** What yargs knows of its own commands. */
export interface Grammar {
  /** Commands (path: none, or `image`), or flags with their dashes, that may stand behind these commands. */
  words(path: readonly string[], kind: 'commands' | 'flags'): readonly string[];
}

/** The commands that a line begins with; flags may stand before and between them. */
export function commandPath(argv: readonly string[], grammar: Grammar): string[] {
  const path: string[] = [];
  for (const [at, word] of argv.entries()) {
    if (word.startsWith('-')) continue;
    if (!grammar.words(path, 'commands').includes(word)) {
      if (mayBeValue(argv, at)) continue;
      break;
    }
    path.push(word);
    // Only one command has commands of its own.
    if (path.length === 2) break;
  }
  return path;
}

/** Says in one line what is wrong with it, what was probably meant, and where the help is. */
export function misuse(reason: string, argv: readonly string[], grammar: Grammar): NodeError {
  const path = commandPath(argv, grammar);
  const command = ['virt-node', ...path].join(' ');
  return new NodeError('USAGE', `${wordsFor(reason, argv, path, grammar)} (see ${command} --help)`);
}

/** Of the flag before it. */
function mayBeValue(argv: readonly string[], at: number): boolean {
  return /^-[^=]*$/.test(argv[at - 1] ?? '');
}

function wordsFor(reason: string, argv: readonly string[], path: readonly string[], grammar: Grammar): string {
  const [, list] = /^Unknown arguments?: (.*)$/s.exec(reason) ?? [];
  const command = ['virt-node', ...path].join(' ');
  if (list === undefined) {
    const [, argument = '', given = '', choices] =
      /^Invalid values:\s+Argument: (\S+), Given: (.*), Choices: (.*)$/s.exec(reason) ?? [];
    if (choices !== undefined) {
      const flag = grammar.words(path, 'flags').includes(`--${argument}`) ? `--${argument}` : argument;
      const known = [...choices.matchAll(/"([^"]*)"/g)].map(([, word = '']) => word);
      return `${flag}: ${given} is none of ${choices}${didYouMean(given.replaceAll('"', ''), known)}`;
    }
    const missing = /^Not enough non-option arguments: got (\d+), need at least (\d+)$/.exec(reason);
    if (!missing) return reason;
    return `${command} needs ${missing[2] === '1' ? 'a name' : `${missing[2]} words`} behind it, and has ${missing[1]}`;
  }
  const commands = grammar.words(path, 'commands');
  // Alone it is one.
  const unknown = list.split(', ').filter((name) => name !== 'version' || path.length > 0);
  const first = argv.find((word) => !word.startsWith('-') && unknown.includes(word));
  if (commands.length > 0 && first !== undefined) {
    return `${JSON.stringify(first)} is no command of ${command}${didYouMean(first, commands)}`;
  }
  const flags = [...grammar.words(path, 'flags'), ...(path.length === 0 ? ['--help', '--version'] : [])];
  return unknown
    .map((name) => {
      const flag = argv.find((word) => word.startsWith('-') && word.replace(/^--?/, '').split('=', 1)[0] === name);
      if (flag === undefined) return `${command} takes no further word ${JSON.stringify(name)}`;
      const written = flag.split('=', 1)[0] ?? flag;
      return `${written} is no flag of ${command}${didYouMean(written, flags)}`;
    })
    .join('; ');
}
