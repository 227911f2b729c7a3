import yargs, { type Argv } from 'yargs';
import { errorMessage } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { defaultStateDir } from '../paths.ts';
import { type Shell, shells, stateDirAt, type Wanted, wantedAt } from './completion.ts';
import type { ConsoleWish } from './console-stream.ts';
import { type ExplainQuestion, explainQuestion } from './explain.ts';
import {
  accessFlags,
  apiserverFlags,
  commonFlags,
  explainFlags,
  imageListFlags,
  listFlags,
  migrateFlags,
  nodeFlags,
  rebootFlags,
  scpFlags,
  screenshotFlags,
  sshFlags,
  statusFlags,
  stopFlags,
  upFlags,
  urlFlags,
  vmFlags,
  vncFlags,
} from './flags.ts';
import { type ImageCommand, imageCommands } from './image-commands.ts';
import type { ListWish } from './list.ts';
import type { MigrateWish } from './migrate.ts';
import { asYargsReads, refuseMisread } from './misread.ts';
import { commandPath, type Grammar, misuse } from './misuse.ts';
import type { SshWish } from './ssh.ts';
import { loginOf, type ScpFile, scpFilesOf } from './ssh-arguments.ts';
import { addUserCommands, type UserCommand } from './user-commands.ts';
import type { CliVmAction, VmName } from './vm-agent.ts';

/** What the command line asks for. */
export type Command =
  | ({ readonly command: 'start' } & NodeFlags)
  | ({ readonly command: 'up'; readonly once: boolean } & NodeFlags)
  | {
      readonly command: 'apiserver';
      readonly stateDir: string;
      readonly host: string;
      readonly port: number;
      readonly nodeName: string | undefined;
      readonly nodes: number;
      readonly verbosity: number;
    }
  | { readonly command: 'stop'; readonly stateDir: string; readonly keepVms: boolean }
  | { readonly command: 'status'; readonly stateDir: string; readonly output: 'table' | 'json' | 'yaml' }
  | { readonly command: 'url'; readonly stateDir: string; readonly readOnly: boolean }
  | ({ readonly command: 'list'; readonly stateDir: string } & ListWish)
  | UserCommand
  | ({ readonly command: 'console'; readonly access: Access } & VmFlags)
  | ({ readonly command: 'vnc'; readonly access: Access; readonly port: number } & VmFlags)
  | ({ readonly command: 'screenshot'; readonly output: string | undefined } & VmFlags)
  | ({ readonly command: 'act'; readonly action: CliVmAction } & VmFlags)
  | ({ readonly command: 'migrate' } & MigrateWish & VmFlags)
  | ({ readonly command: 'migrate-cancel' } & VmFlags)
  | ({ readonly command: 'ssh'; readonly remote: readonly string[] } & SshWish & VmFlags)
  | ({ readonly command: 'scp'; readonly files: readonly ScpFile[]; readonly recursive: boolean } & SshWish & VmFlags)
  /** What the OpenSSH client calls. */
  | ({ readonly command: 'ssh-proxy'; readonly port: number } & VmFlags)
  | ({ readonly command: 'explain' } & ExplainQuestion)
  | ImageCommand
  | { readonly command: 'version' }
  | { readonly command: 'completion'; readonly shell: Shell | undefined }
  /** Help. */
  | { readonly command: 'print'; readonly text: string }
  /** What may stand where the cursor is: `words` are known, others the node is asked for. */
  | {
      readonly command: 'complete';
      readonly words: readonly string[];
      readonly wanted: Wanted;
      readonly stateDir: string;
    };

type Access = ConsoleWish['access'];

export interface VmFlags extends VmName {
  readonly stateDir: string;
}

export interface NodeFlags {
  readonly stateDir: string;
  readonly nodeName: string | undefined;
  readonly nodes: number;
  readonly apiPort: number;
  /** First port to try for the page; 0: no page. */
  readonly webPort: number;
  /** `auto`, `none` or an IPv4 range. */
  readonly podNetwork: string;
  /** Absolute. */
  readonly hostDiskDirs: readonly string[];
  readonly verbosity: number;
}

type Choose = (command: Command) => void;

/** Parses argv without node and script. Throws NodeError USAGE, whose message says what is wrong and what would be right. */
export function parseCommand(argv: readonly string[]): Command {
  if (argv[0] === completionFlag) return completed(argv);
  const { own, remote } = withoutRemote(argv);
  try {
    const command = read(own);
    return command.command === 'ssh' ? { ...command, remote } : command;
  } catch (error) {
    if (!(error instanceof NodeError) || error.code !== 'USAGE') throw error;
    throw misuse(error.message, own[0] === 'help' ? own.slice(1) : own, grammar);
  }
}

function read(argv: readonly string[]): Command {
  if (argv.includes('--version') && argv.every((word) => word.startsWith('-'))) return { command: 'version' };
  refuseMisread(argv);
  const helped = argv[0] === 'help' ? argv.slice(1) : undefined;
  if (helped) refuseUnknownHelp(helped);
  const { chosen, printed, parser } = parsed(asYargsReads(argv));
  if (printed !== '') return { command: 'print', text: printed };
  return chosen ?? { command: 'print', text: helpOf(parser) };
}

function parsed(argv: readonly string[]) {
  let chosen: Command | undefined;
  let printed = '';
  const parser = makeParser((command) => {
    chosen = command;
  });
  parser.parse([...argv], {}, (_error, _argv, output) => {
    printed = output;
  });
  return { chosen, printed, parser };
}

/** `help X` of what is no command would be the help of all. */
function refuseUnknownHelp(path: readonly string[]): void {
  const known = commandPath(path, grammar);
  const unknown = path.find((word) => !known.includes(word) && !word.startsWith('-'));
  if (unknown !== undefined) throw new NodeError('USAGE', `Unknown argument: ${unknown}`);
}

function completed(argv: readonly string[]): Command {
  // Behind the flag stands the name of the program.
  const words = argv.slice(2);
  const stateDirOfLine = stateDirAt(words) ?? defaultStateDir;
  const wanted = wantedAt(words);
  // What stands behind a flag that takes a value is neither command nor flag.
  const isValue = wanted.kind !== 'vms' && wanted.kind !== 'nothing';
  // Flags where one is begun: they would hide the names.
  const isFlag = words.at(-1)?.startsWith('-') === true;
  const offered = isValue ? [] : staticWords(argv).filter((word) => word.startsWith('-') === isFlag);
  return { command: 'complete', words: offered, wanted, stateDir: stateDirOfLine };
}

/** Commands and flags; shells that show descriptions are given them by yargs behind a colon. */
function staticWords(argv: readonly string[]): string[] {
  const printed = parseUntilRight((given) => parsed(given).printed, argv);
  return printed.split('\n').flatMap((line) => line.split(':', 1)[0] || []);
}

/** Other names of commands, which yargs offers to nobody. */
const aliases = { list: 'ls', explain: 'why' } as const;

const grammar: Grammar = {
  words: (path, kind) => {
    const words = staticWords([completionFlag, 'virt-node', ...path, kind === 'flags' ? '--' : '']);
    const all = path.length === 0 && kind === 'commands' ? [...words, ...Object.values(aliases)] : words;
    // `--o` is yargs' other way of writing `-o`.
    return all.filter((word) => (kind === 'flags' ? /^--[\w-]{2}/ : /^[a-z]/).test(word));
  },
};

/** `ssh NAME -- COMMAND`: words of the guest's, whatever they look like here. */
function withoutRemote(argv: readonly string[]): {
  readonly own: readonly string[];
  readonly remote: readonly string[];
} {
  const at = argv[0] === 'ssh' ? argv.indexOf('--') : -1;
  return at < 0 ? { own: argv, remote: [] } : { own: argv.slice(0, at), remote: argv.slice(at + 1) };
}

function makeParser(choose: Choose): Argv {
  const parser = yargs()
    .scriptName('virt-node')
    .usage('$0: a one-node KubeVirt on this machine')
    .locale('en')
    .parserConfiguration({
      'boolean-negation': false,
      'camel-case-expansion': false,
      'dot-notation': false,
      'duplicate-arguments-array': false,
      'parse-positional-numbers': false,
      'strip-aliased': true,
    })
    .wrap(120)
    .exitProcess(false)
    .version(false)
    .help()
    .alias('help', 'h')
    .strict()
    .fail((message, error) => {
      if (error instanceof NodeError) throw error;
      throw new NodeError('USAGE', message || errorMessage(error));
    })
    .options(commonFlags);
  nodeCommands(parser, choose);
  addUserCommands(parser, choose);
  vmCommands(parser, choose);
  return parser;
}

function helpOf(parser: Argv): string {
  let text = '';
  parser.showHelp((help) => {
    text = help;
  });
  return text;
}

function nodeCommands(parser: Argv, choose: Choose): void {
  parser
    .command(
      'up',
      'start the node, boot the example VM, wait for its login; Ctrl-C ends all of it',
      (flags) => flags.options(upFlags),
      (given) => choose({ command: 'up', once: given.once, ...nodeFlagsOf(given) }),
    )
    .command(
      'start',
      'run the node in the foreground; VMs outlive it',
      (flags) => flags.options(nodeFlags),
      (given) => choose({ command: 'start', ...nodeFlagsOf(given) }),
    )
    .command(
      'stop',
      'shut the VMs down and end the node that runs elsewhere',
      (flags) => flags.options(stopFlags),
      (given) => choose({ command: 'stop', stateDir: given['state-dir'], keepVms: given['keep-vms'] }),
    )
    .command(
      'status',
      'what runs, and how to reach it',
      (flags) => flags.options(statusFlags),
      (given) => choose({ command: 'status', stateDir: given['state-dir'], output: given.output }),
    )
    .command(
      ['list', aliases.list],
      'list the VMs of the node',
      (flags) => flags.options(listFlags),
      (given) => {
        const namespace = given.all ? undefined : given.namespace;
        choose({ command: 'list', stateDir: given['state-dir'], namespace, output: given.output });
      },
    )
    .command(
      'url',
      "print the address of the node's web page, with its token",
      (flags) => flags.options(urlFlags),
      (given) => choose({ command: 'url', stateDir: given['state-dir'], readOnly: given['read-only'] }),
    )
    .command('image', 'disks and directories that VMs may have as images', (flags) => imageCommands(flags, choose))
    .command(
      'images',
      'the same as image list',
      (flags) => flags.options(imageListFlags),
      (given) => choose({ command: 'images', stateDir: given['state-dir'], quiet: given.quiet }),
    )
    .command(
      'apiserver',
      'run the Kubernetes API alone (start does this)',
      (flags) => flags.options(apiserverFlags),
      (given) => {
        const { host, port, nodes, verbosity } = given;
        const node = { stateDir: given['state-dir'], nodeName: given['node-name'] };
        choose({ command: 'apiserver', host, port, nodes, verbosity, ...node });
      },
    )
    .command(
      'completion [shell]',
      'print a script for bash, zsh or fish that completes commands, flags and names of VMs',
      (flags) =>
        flags.positional('shell', { type: 'string', choices: shells, describe: 'default: the one that you use' }),
      (given) => choose({ command: 'completion', shell: given.shell }),
    )
    .command('version', 'print the version', {}, () => choose({ command: 'version' }));
}

function vmCommands(parser: Argv, choose: Choose): void {
  parser
    .command(
      'console <name>',
      'attach to the serial console of a VM; Ctrl-] leaves',
      (flags) => named(flags).options({ ...vmFlags, ...accessFlags }),
      (given) => choose({ command: 'console', ...vmOf(given), access: accessOf(given) }),
    )
    .command(
      'vnc <name>',
      'open a local port for a VNC viewer',
      (flags) => named(flags).options(vncFlags),
      (given) => choose({ command: 'vnc', ...vmOf(given), access: accessOf(given), port: given.port }),
    )
    .command(
      'screenshot <name>',
      'save what is on the screen of a VM',
      (flags) => named(flags).options(screenshotFlags),
      (given) => choose({ command: 'screenshot', ...vmOf(given), output: given.output }),
    )
    .command(
      'ssh <name>',
      'log in to a VM, or run a command there: ssh NAME -- COMMAND',
      (flags) => named(flags).options(sshFlags),
      (given) => choose({ command: 'ssh', ...sshOf(given, loginOf(given.name)), remote: [] }),
    )
    .command(
      'scp <source> <target>',
      'copy a file from a VM or into it: [USER@]NAME:FILE is one of the VM',
      (flags) =>
        flags
          .positional('source', { type: 'string', demandOption: true, describe: 'FILE or [USER@]NAME:FILE' })
          .positional('target', { type: 'string', demandOption: true, describe: 'the other of both' })
          .options(scpFlags),
      (given) => {
        const { files, ...login } = scpFilesOf(given.source, given.target);
        choose({ command: 'scp', ...sshOf(given, login), files, recursive: given.recursive });
      },
    )
    .command(
      'ssh-proxy <name>',
      false,
      (flags) => named(flags).options(sshFlags),
      (given) => choose({ command: 'ssh-proxy', ...vmOf(given), port: given.port }),
    )
    .command(
      'reboot <name>',
      'ask the guest to reboot',
      (flags) => named(flags).options(rebootFlags),
      (given) => choose({ command: 'act', ...vmOf(given), action: given.force ? 'reset' : 'softreboot' }),
    )
    .command(
      'migrate <name>',
      'move a running VM to another node (start --nodes), and wait until it is there',
      (flags) => named(flags).options(migrateFlags),
      (given) => choose({ command: 'migrate', ...vmOf(given), to: given.to, noWait: given['no-wait'] }),
    )
    .command(
      'migrate-cancel <name>',
      'end what moves a VM; it stays where it is',
      (flags) => named(flags).options(vmFlags),
      (given) => choose({ command: 'migrate-cancel', ...vmOf(given) }),
    )
    .command(
      ['explain [name]', aliases.explain],
      'show what was decided and why: NAME by the agent (all without NAME), vm/NAME, vmi/NAME, vmim/NAME, vmirs/NAME, vmpool/NAME, vmsnapshot/NAME, vmrestore/NAME, vmclone/NAME, vmexport/NAME, vmbackup/NAME, vmbackuptracker/NAME, node/NODE or evacuation/NODE by virt-controller (all: vm/)',
      (flags) =>
        flags
          .positional('name', { type: 'string', describe: 'VM, vm/VM or vmi/VM; with --labels a part of keys' })
          .options(explainFlags),
      (given) => choose({ command: 'explain', ...explainQuestion(given) }),
    );
  for (const [action, describe] of Object.entries(actions)) {
    parser.command(
      `${action} <name>`,
      describe,
      (flags) => named(flags).options(vmFlags),
      (given) => choose({ command: 'act', ...vmOf(given), action: action as keyof typeof actions }),
    );
  }
}

const actions = {
  pause: 'stop the CPUs of a VM',
  unpause: 'let a paused VM go on',
  reset: 'reset a VM, as its reset button would',
} as const;

const named = (flags: Argv) => flags.positional('name', { type: 'string', demandOption: true, describe: 'of the VM' });

interface NodeValues {
  readonly 'state-dir': string;
  readonly 'node-name': string | undefined;
  readonly nodes: number;
  readonly 'api-port': number;
  readonly 'web-port': number;
  readonly 'pod-network': string;
  readonly 'host-disk-dirs': readonly string[];
  readonly verbosity: number;
}

function nodeFlagsOf(given: NodeValues): NodeFlags {
  return {
    stateDir: given['state-dir'],
    nodeName: given['node-name'],
    nodes: given.nodes,
    apiPort: given['api-port'],
    webPort: given['web-port'],
    podNetwork: given['pod-network'],
    hostDiskDirs: given['host-disk-dirs'],
    verbosity: given.verbosity,
  };
}

function vmOf(given: { readonly 'state-dir': string; readonly namespace: string; readonly name: string }): VmFlags {
  return { stateDir: given['state-dir'], namespace: given.namespace, name: given.name };
}

interface SshValues {
  readonly 'state-dir': string;
  readonly namespace: string;
  readonly user: string | undefined;
  readonly identity: string | undefined;
  readonly port: number;
}

function sshOf(given: SshValues, { user, name }: ReturnType<typeof loginOf>): SshWish & VmFlags {
  const { identity, port, namespace } = given;
  return { stateDir: given['state-dir'], namespace, name, user: given.user ?? user ?? 'root', identity, port };
}

function accessOf({ view, take }: { readonly view: boolean; readonly take: boolean }): Access {
  if (view && take) throw new NodeError('USAGE', '--view and --take: choose one of them');
  if (view) return 'view';
  return take ? 'take' : 'take-if-free';
}

/** The script of `completion` calls with it, followed by the words so far. */
const completionFlag = '--get-yargs-completions';
/** A value that is wrong earlier in the line keeps no word from being completed, and prints no usage into the terminal. */
function parseUntilRight(parse: (argv: readonly string[]) => string, argv: readonly string[]): string {
  const commands = argv.slice(0, -1).filter((word, index) => index === 0 || !word.startsWith('-'));
  for (const given of [argv, [...commands.slice(0, 3), ...argv.slice(-1)]]) {
    try {
      return parse(given);
    } catch (error) {
      if (!(error instanceof NodeError)) throw error;
    }
  }
  return '';
}
