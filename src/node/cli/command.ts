import { NodeError } from '../errors.ts';
import { defaultStateDir, nodePaths } from '../paths.ts';
import type { WhyQuestion } from './why.ts';

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
      readonly verbosity: number;
    }
  | { readonly command: 'stop'; readonly stateDir: string; readonly keepVms: boolean }
  | { readonly command: 'status'; readonly stateDir: string }
  | { readonly command: 'console'; readonly stateDir: string; readonly name: string; readonly namespace: string }
  | ({ readonly command: 'why' } & WhyQuestion)
  | { readonly command: 'image-add'; readonly stateDir: string; readonly reference: string; readonly source: string }
  | { readonly command: 'images'; readonly stateDir: string }
  | { readonly command: 'version' }
  | { readonly command: 'help'; readonly text: string };

export interface NodeFlags {
  readonly stateDir: string;
  readonly nodeName: string | undefined;
  readonly apiPort: number;
  readonly verbosity: number;
}

interface Flag {
  readonly kind: 'text' | 'number' | 'switch';
  readonly fallback: string | number | boolean | undefined;
  readonly help: string;
  readonly short?: string;
}

const stateDir: Flag = { kind: 'text', fallback: defaultStateDir, help: 'where the node keeps everything' };
const verbosity: Flag = { kind: 'number', fallback: 2, help: 'log verbosity', short: 'v' };
const nodeName: Flag = {
  kind: 'text',
  fallback: undefined,
  help: 'name of the Node object (default: the host name)',
};
const nodeFlags: Readonly<Record<string, Flag>> = {
  'state-dir': stateDir,
  'node-name': nodeName,
  'api-port': { kind: 'number', fallback: 16443, help: 'port of the Kubernetes API; the next free one is taken' },
  verbosity,
};

interface CommandSpec {
  readonly usage: string;
  readonly help: string;
  readonly flags: Readonly<Record<string, Flag>>;
  readonly positional: number;
  /** May follow those. */
  readonly optional?: number;
}

const specs: Readonly<Record<string, CommandSpec>> = {
  up: {
    usage: 'up [--once]',
    help: 'start the node, boot the example VM, wait for its login; Ctrl-C ends all of it',
    flags: { ...nodeFlags, once: { kind: 'switch', fallback: false, help: 'then delete the VM, check and leave' } },
    positional: 0,
  },
  start: { usage: 'start', help: 'run the node in the foreground; VMs outlive it', flags: nodeFlags, positional: 0 },
  stop: {
    usage: 'stop [--keep-vms]',
    help: 'shut the VMs down and end the node that runs elsewhere',
    flags: { 'state-dir': stateDir, 'keep-vms': { kind: 'switch', fallback: false, help: 'leave the VMs running' } },
    positional: 0,
  },
  status: { usage: 'status', help: 'what runs, and how to reach it', flags: { 'state-dir': stateDir }, positional: 0 },
  console: {
    usage: 'console NAME [-n NAMESPACE]',
    help: 'attach to the serial console of a VM; Ctrl-] leaves',
    flags: {
      'state-dir': stateDir,
      namespace: { kind: 'text', fallback: 'default', help: 'namespace of the VM', short: 'n' },
    },
    positional: 1,
  },
  why: {
    usage: 'why [NAME] [-n NAMESPACE] [-o text|json]',
    help: 'show what the agent decided about a VM and why; without NAME about all',
    flags: {
      'state-dir': stateDir,
      namespace: { kind: 'text', fallback: 'default', help: 'namespace of the VM', short: 'n' },
      output: { kind: 'text', fallback: 'text', help: 'text or json', short: 'o' },
      socket: {
        kind: 'text',
        fallback: undefined,
        help: 'socket of the agent, in a pod: <private dir>/virt-handler.sock',
      },
    },
    positional: 0,
    optional: 1,
  },
  'image add': {
    usage: 'image add REFERENCE FILE|DIRECTORY',
    help: 'put a disk or a directory of files on the node as an image',
    flags: { 'state-dir': stateDir },
    positional: 2,
  },
  images: { usage: 'images', help: 'list the images of the node', flags: { 'state-dir': stateDir }, positional: 0 },
  apiserver: {
    usage: 'apiserver',
    help: 'run the Kubernetes API alone (start does this)',
    flags: {
      'state-dir': stateDir,
      host: { kind: 'text', fallback: '127.0.0.1', help: 'loopback address to listen on' },
      port: { kind: 'number', fallback: 16443, help: 'port to listen on' },
      'node-name': nodeName,
      verbosity,
    },
    positional: 0,
  },
  version: { usage: 'version', help: 'print the version', flags: {}, positional: 0 },
};

/** Parses argv without node and script. Throws NodeError USAGE, whose message says what is wrong and what would be right. */
export function parseCommand(argv: readonly string[]): Command {
  const [first = 'help', second] = argv;
  if (['help', '--help', '-h'].includes(first)) return { command: 'help', text: usage() };
  if (first === '--version') return { command: 'version' };
  const name = first === 'image' ? `image ${second ?? ''}`.trim() : first;
  const spec = Object.hasOwn(specs, name) ? specs[name] : undefined;
  if (!spec) throw new NodeError('USAGE', `unknown command ${JSON.stringify(name)}\n\n${usage()}`);
  const { flags, positional, wantsHelp } = parseFlags(name, spec, argv.slice(name.split(' ').length));
  if (wantsHelp) return { command: 'help', text: commandUsage(spec) };
  const most = spec.positional + (spec.optional ?? 0);
  if (positional.length < spec.positional || positional.length > most) {
    throw new NodeError('USAGE', `usage: virt-node ${spec.usage}`);
  }
  return toCommand(name, flags, positional);
}

type Values = Readonly<Record<string, string | number | boolean | undefined>>;

function toCommand(name: string, values: Values, [one = '', two = '']: readonly string[]): Command {
  const state = String(values['state-dir']);
  const node = {
    stateDir: state,
    nodeName: values['node-name'] === undefined ? undefined : String(values['node-name']),
    apiPort: Number(values['api-port']),
    verbosity: Number(values.verbosity),
  };
  switch (name) {
    case 'up':
      return { command: 'up', once: values.once === true, ...node };
    case 'start':
      return { command: 'start', ...node };
    case 'stop':
      return { command: 'stop', stateDir: state, keepVms: values['keep-vms'] === true };
    case 'console':
      return { command: 'console', stateDir: state, name: one, namespace: String(values.namespace) };
    case 'why':
      return { command: 'why', ...whyQuestion(values, one) };
    case 'image add':
      return { command: 'image-add', stateDir: state, reference: one, source: two };
    case 'images':
      return { command: 'images', stateDir: state };
    case 'status':
      return { command: 'status', stateDir: state };
    case 'apiserver': {
      const { apiPort: _none, ...rest } = node;
      return { command: 'apiserver', ...rest, host: String(values.host), port: Number(values.port) };
    }
    default:
      return { command: 'version' };
  }
}

function whyQuestion(values: Values, name: string): WhyQuestion {
  const { output, socket } = values;
  if (output !== 'text' && output !== 'json') {
    throw new NodeError('USAGE', `--output: ${JSON.stringify(output)} is neither text nor json`);
  }
  return {
    output,
    namespace: String(values.namespace),
    ...(name !== '' && { name }),
    socket: socket === undefined ? nodePaths(String(values['state-dir'])).agentSocket : String(socket),
  };
}

interface Parsed {
  readonly flags: Values;
  readonly positional: readonly string[];
  readonly wantsHelp: boolean;
}

function parseFlags(name: string, spec: CommandSpec, argv: readonly string[]): Parsed {
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

function usage(): string {
  const lines = Object.values(specs).map(({ usage: line, help }) => `  virt-node ${line.padEnd(38)} ${help}`);
  return ['virt-node: a one-node KubeVirt on this machine', '', ...lines, '', 'Each takes --help.'].join('\n');
}

function commandUsage(spec: CommandSpec): string {
  const lines = Object.entries(spec.flags).map(([key, { help, fallback, short, kind }]) => {
    const flag = `--${key}${short ? `, -${short}` : ''}`;
    const shown = fallback === undefined || kind === 'switch' ? '' : ` (default ${fallback})`;
    return `  ${flag.padEnd(20)} ${help}${shown}`;
  });
  return [`usage: virt-node ${spec.usage}`, spec.help, ...lines].join('\n');
}
