import { defaultStateDir } from '../paths.ts';

/** One flag of a command. */
export interface Flag {
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
  'web-port': {
    kind: 'number',
    fallback: 18080,
    help: 'port of the web page on the loopback address; the next free one is taken; 0: no page',
  },
  'host-disk-dirs': {
    kind: 'text',
    fallback: '',
    help: 'directories, with commas between them, whose files VMs may have as hostDisk (besides host-disks in the state directory)',
  },
  verbosity,
};

const vmFlags: Readonly<Record<string, Flag>> = {
  'state-dir': stateDir,
  namespace: { kind: 'text', fallback: 'default', help: 'namespace of the VM', short: 'n' },
};
const accessFlags: Readonly<Record<string, Flag>> = {
  view: { kind: 'switch', fallback: false, help: 'look on beside whoever uses it; nothing is sent to the guest' },
  take: { kind: 'switch', fallback: false, help: 'take it over from whoever uses it' },
};

export interface CommandSpec {
  readonly usage: string;
  readonly help: string;
  readonly flags: Readonly<Record<string, Flag>>;
  readonly positional: number;
  /** May follow those. */
  readonly optional?: number;
}

/** All commands, in the order in which the help lists them. */
export const specs: Readonly<Record<string, CommandSpec>> = {
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
  url: {
    usage: 'url',
    help: "print the address of the node's web page, with its token",
    flags: { 'state-dir': stateDir },
    positional: 0,
  },
  console: {
    usage: 'console NAME [--view|--take]',
    help: 'attach to the serial console of a VM; Ctrl-] leaves',
    flags: { ...vmFlags, ...accessFlags },
    positional: 1,
  },
  vnc: {
    usage: 'vnc NAME [--view|--take]',
    help: 'open a local port for a VNC viewer',
    flags: {
      ...vmFlags,
      ...accessFlags,
      port: { kind: 'number', fallback: 0, help: 'port on the loopback address; 0: any that is free' },
    },
    positional: 1,
  },
  screenshot: {
    usage: 'screenshot NAME [-o FILE]',
    help: 'save what is on the screen of a VM',
    flags: {
      ...vmFlags,
      output: { kind: 'text', fallback: undefined, help: 'file; - is standard output (default: NAME.png)', short: 'o' },
    },
    positional: 1,
  },
  pause: { usage: 'pause NAME', help: 'stop the CPUs of a VM', flags: vmFlags, positional: 1 },
  unpause: { usage: 'unpause NAME', help: 'let a paused VM go on', flags: vmFlags, positional: 1 },
  reboot: {
    usage: 'reboot NAME [--force]',
    help: 'ask the guest to reboot',
    flags: { ...vmFlags, force: { kind: 'switch', fallback: false, help: 'reset it, whatever it is doing' } },
    positional: 1,
  },
  reset: { usage: 'reset NAME', help: 'reset a VM, as its reset button would', flags: vmFlags, positional: 1 },
  why: {
    usage: 'why [NAME] [-n NAMESPACE] [--labels] [-o text|json]',
    help: 'show what the agent decided about a VM and why; without NAME about all; with --labels which labels the node has and why',
    flags: {
      ...vmFlags,
      labels: {
        kind: 'switch',
        fallback: false,
        help: 'labels of the node instead, those whose keys contain NAME',
      },
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
  'image list': {
    usage: 'image list',
    help: 'list the images of the node by their references',
    flags: { 'state-dir': stateDir },
    positional: 0,
  },
  images: { usage: 'images', help: 'the same as image list', flags: { 'state-dir': stateDir }, positional: 0 },
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
