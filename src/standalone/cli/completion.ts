import { resources } from '../../api/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import type { NodePaths } from '../paths.ts';
import { UserAccounts } from '../supervisor/index.ts';
import { connectToNode } from './find-vmi.ts';
import { shortToggles, toggles } from './flags.ts';

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

/** What may stand where the cursor is, besides commands and flags. */
export type Wanted =
  | { readonly kind: 'vms'; readonly namespace: string }
  | { readonly kind: 'namespaces' | 'nodes' | 'users' | 'files' | 'nothing' };

/** Commands whose first word is the name of a VM. */
const ofVms: ReadonlySet<string> = new Set([
  ...['console', 'vnc', 'screenshot', 'ssh', 'pause', 'unpause', 'reboot', 'reset', 'migrate', 'migrate-cancel'],
  ...['explain', 'why'],
]);
const values: Readonly<Record<string, Wanted['kind']>> = {
  '--namespace': 'namespaces',
  '-n': 'namespaces',
  '--to': 'nodes',
  '--user': 'users',
};
/** Flags that no value follows. */
const alone: ReadonlySet<string> = new Set(
  [...toggles, ...['help', 'version']].flatMap((name) => [`--${name}`, ...(shortToggles[name] ?? [])]),
);

/** `words`: what stands before the cursor, without the program; the last one is what is being written, maybe empty. */
export function wantedAt(given: readonly string[]): Wanted {
  const words = joinedAtEquals(given);
  const written = words.at(-1) ?? '';
  // `--namespace=x` is about the same as `--namespace x`.
  const before = /^--[\w-]+=/.test(written) ? (written.split('=', 1)[0] ?? '') : (words.at(-2) ?? '');
  const kind = values[before];
  if (kind && kind !== 'vms') return { kind };
  if (before.startsWith('-') && !before.includes('=') && !alone.has(before) && words.length > 1)
    return { kind: 'files' };
  if (words.at(-1)?.startsWith('-')) return { kind: 'nothing' };
  const plain = positional(words.slice(0, -1));
  const [command, ...more] = plain;
  if (command === undefined || !ofVms.has(command) || more.length > 0) return { kind: 'nothing' };
  return { kind: 'vms', namespace: flagValue(words, ['-n', '--namespace']) ?? 'default' };
}

/** The directory that the line names; undefined: the usual one. */
export function stateDirAt(words: readonly string[]): string | undefined {
  return flagValue(joinedAtEquals(words), ['--state-dir']) || undefined;
}

/** bash makes three words of `--flag=value`. */
function joinedAtEquals(words: readonly string[]): string[] {
  const joined: string[] = [];
  for (const [at, word] of words.entries()) {
    const last = joined.at(-1);
    const goesOn = last?.startsWith('--') && (word === '=' || words[at - 1] === '=');
    if (goesOn) joined[joined.length - 1] = `${last}${word}`;
    else joined.push(word);
  }
  return joined;
}

/** Asks the node, and gives nothing where it does not answer: nobody wants an error in the middle of a line. */
export async function dynamicWords(paths: NodePaths, wanted: Wanted): Promise<string[]> {
  try {
    if (wanted.kind === 'users') return (await new UserAccounts(paths.usersDir).list()).records.map(({ user }) => user);
    if (wanted.kind === 'nothing' || wanted.kind === 'files') return [];
    const client = await connectToNode(paths);
    try {
      return await namesOf(client, wanted);
    } finally {
      client.close();
    }
  } catch {
    return [];
  }
}

const answerMs = 1_500;

async function namesOf(client: KubeClient, wanted: Wanted): Promise<string[]> {
  const options = { timeoutMs: answerMs };
  const list = async (type: (typeof resources)[keyof typeof resources], namespace?: string) => {
    const { items } = await client.list(type, { ...options, ...(namespace !== undefined && { namespace }) });
    return items.map(({ metadata }) => metadata.name);
  };
  if (wanted.kind === 'nodes') return list(resources.nodes);
  if (wanted.kind === 'namespaces') return list(resources.namespaces);
  if (wanted.kind !== 'vms') return [];
  const names = await Promise.all([
    list(resources.virtualMachineInstances, wanted.namespace),
    list(resources.virtualMachines, wanted.namespace),
  ]);
  return [...new Set(names.flat())].sort();
}

function positional(words: readonly string[]): string[] {
  return words.filter((word, at) => {
    if (word.startsWith('-')) return false;
    const before = words[at - 1] ?? '';
    return !before.startsWith('-') || before.includes('=') || alone.has(before);
  });
}

function flagValue(words: readonly string[], flags: readonly string[]): string | undefined {
  const at = words.findLastIndex((word) => flags.some((flag) => word === flag || word.startsWith(`${flag}=`)));
  const found = words[at];
  if (found === undefined) return undefined;
  return found.includes('=') ? found.slice(found.indexOf('=') + 1) : words[at + 1];
}

/** A script for the shell; `command` are the words that run this program, each of which stays one. */
export function completionScript(shell: Shell, command: readonly string[]): string {
  const ask = [...command, '--get-yargs-completions'].map(quoted).join(' ');
  switch (shell) {
    case 'bash':
      return [
        '# virt-node completion bash: add to ~/.bashrc:  source <(virt-node completion bash)',
        '_virt_node() {',
        "  local IFS=$'\\n'",
        `  COMPREPLY=($(compgen -W "$(${ask} "\${COMP_WORDS[@]:0:COMP_CWORD}" "\${COMP_WORDS[COMP_CWORD]}" 2>/dev/null)" -- "\${COMP_WORDS[COMP_CWORD]}"))`,
        '}',
        'complete -o default -F _virt_node virt-node',
      ].join('\n');
    case 'zsh':
      return [
        '#compdef virt-node',
        '# virt-node completion zsh: add to ~/.zshrc, below compinit:  source <(virt-node completion zsh)',
        '_virt_node() {',
        '  local -a found',
        `  found=("\${(@f)$(${ask} "\${(@)words[1,CURRENT]}" 2>/dev/null)}")`,
        '  if [[ -n "$found" ]]; then compadd -a found; else _files; fi',
        '}',
        'compdef _virt_node virt-node',
      ].join('\n');
    case 'fish':
      return [
        '# virt-node completion fish: save as ~/.config/fish/completions/virt-node.fish',
        'function __virt_node_words',
        `  ${ask} (commandline -opc) (commandline -ct) 2>/dev/null`,
        'end',
        // Files where there is nothing else.
        "complete -c virt-node -n 'test -n (__virt_node_words | string collect)' -f -a '(__virt_node_words)'",
      ].join('\n');
  }
}

/** bash, zsh and fish agree on this one. */
function quoted(word: string): string {
  return /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
