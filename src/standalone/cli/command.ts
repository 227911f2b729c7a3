import path from 'node:path';
import { NodeError } from '../errors.ts';
import { nodePaths } from '../paths.ts';
import { commandUsage, parseFlags, usage, type Values } from './command-flags.ts';
import { specs } from './command-specs.ts';
import type { ConsoleWish } from './console-stream.ts';
import type { ExplainQuestion } from './explain.ts';
import type { VmAction, VmName } from './vm-agent.ts';

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
  | { readonly command: 'url'; readonly stateDir: string }
  | ({ readonly command: 'console'; readonly access: Access } & VmFlags)
  | ({ readonly command: 'vnc'; readonly access: Access; readonly port: number } & VmFlags)
  | ({ readonly command: 'screenshot'; readonly output: string | undefined } & VmFlags)
  | ({ readonly command: 'act'; readonly action: VmAction } & VmFlags)
  | ({ readonly command: 'why' } & ExplainQuestion)
  | { readonly command: 'image-add'; readonly stateDir: string; readonly reference: string; readonly source: string }
  | { readonly command: 'images'; readonly stateDir: string }
  | { readonly command: 'version' }
  | { readonly command: 'help'; readonly text: string };

type Access = ConsoleWish['access'];

export interface VmFlags extends VmName {
  readonly stateDir: string;
}

export interface NodeFlags {
  readonly stateDir: string;
  readonly nodeName: string | undefined;
  readonly apiPort: number;
  /** First port to try for the page; 0: no page. */
  readonly webPort: number;
  /** Absolute. */
  readonly hostDiskDirs: readonly string[];
  readonly verbosity: number;
}

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

function toCommand(name: string, values: Values, [one = '', two = '']: readonly string[]): Command {
  const state = String(values['state-dir']);
  const node = {
    stateDir: state,
    nodeName: values['node-name'] === undefined ? undefined : String(values['node-name']),
    apiPort: Number(values['api-port']),
    webPort: Number(values['web-port']),
    hostDiskDirs: directories(values['host-disk-dirs']),
    verbosity: Number(values.verbosity),
  };
  const vm = { stateDir: state, namespace: String(values.namespace), name: one };
  switch (name) {
    case 'up':
      return { command: 'up', once: values.once === true, ...node };
    case 'start':
      return { command: 'start', ...node };
    case 'stop':
      return { command: 'stop', stateDir: state, keepVms: values['keep-vms'] === true };
    case 'url':
      return { command: 'url', stateDir: state };
    case 'console':
      return { command: 'console', ...vm, access: accessOf(values) };
    case 'vnc':
      return { command: 'vnc', ...vm, access: accessOf(values), port: Number(values.port) };
    case 'screenshot':
      return { command: 'screenshot', ...vm, output: values.output === undefined ? undefined : String(values.output) };
    case 'pause':
    case 'unpause':
    case 'reset':
      return { command: 'act', ...vm, action: name };
    case 'reboot':
      return { command: 'act', ...vm, action: values.force === true ? 'reset' : 'softreboot' };
    case 'why':
      return { command: 'why', ...explainQuestion(values, one) };
    case 'image add':
      return { command: 'image-add', stateDir: state, reference: one, source: two };
    case 'images':
    case 'image list':
      return { command: 'images', stateDir: state };
    case 'status':
      return { command: 'status', stateDir: state };
    case 'apiserver': {
      const { apiPort: _none, webPort: _nothing, hostDiskDirs: _neither, ...rest } = node;
      return { command: 'apiserver', ...rest, host: String(values.host), port: Number(values.port) };
    }
    default:
      return { command: 'version' };
  }
}

function directories(text: Values[string]): string[] {
  const dirs = String(text ?? '')
    .split(',')
    .filter(Boolean);
  const wrong = dirs.find((dir) => !path.isAbsolute(dir) || path.resolve(dir) === '/');
  if (wrong === undefined) return dirs.map((dir) => path.resolve(dir));
  throw new NodeError('USAGE', `--host-disk-dirs: ${JSON.stringify(wrong)} is no absolute path of a directory below /`);
}

function accessOf({ view, take }: Values): Access {
  if (view === true && take === true) throw new NodeError('USAGE', '--view and --take: choose one of them');
  if (view === true) return 'view';
  return take === true ? 'take' : 'take-if-free';
}

function explainQuestion(values: Values, name: string): ExplainQuestion {
  const { output, socket, labels } = values;
  if (output !== 'text' && output !== 'json') {
    throw new NodeError('USAGE', `--output: ${JSON.stringify(output)} is neither text nor json`);
  }
  return {
    output,
    namespace: String(values.namespace),
    ...(name !== '' && { name }),
    ...(labels === true && { labels }),
    socket: socket === undefined ? nodePaths(String(values['state-dir'])).agentSocket : String(socket),
  };
}
