import path from 'node:path';
import type { Options } from 'yargs';
import { NodeError } from '../errors.ts';
import { defaultStateDir } from '../paths.ts';
import { isPodNetworkWish } from '../pod-network/index.ts';
import { maxNodes } from '../supervisor/index.ts';
import { outputFormats } from './answer-format.ts';

/** Flags that several commands have, as yargs takes them. */

/** A value of its own follows; of several the last counts. */
const text = (describe: string) => ({ type: 'string', requiresArg: true, describe }) as const satisfies Options;
const toggle = (describe: string) => ({ type: 'boolean', default: false, describe }) as const satisfies Options;
/** A whole number from 0 on; yargs itself takes any number, and what is none for NaN. */
const count = (flag: string, fallback: number, describe: string) =>
  ({
    ...text(describe),
    default: String(fallback),
    coerce: (value: string) => {
      if (/^\d{1,9}$/.test(value)) return Number(value);
      throw new NodeError('USAGE', `--${flag}: ${JSON.stringify(value)} is no number`);
    },
  }) as const satisfies Options;

export const stateDir = {
  'state-dir': {
    ...text('where the node keeps everything'),
    default: defaultStateDir,
    coerce: (dir: string) => named('state-dir', dir, 'directory'),
  },
} as const;
export const defaultApiPort = 16443;
const verbosity = { verbosity: { ...count('verbosity', 2, 'log verbosity'), alias: 'v' } } as const;
const nodeName = { 'node-name': text('name of the Node object (default: the host name)') } as const;

const nodes = {
  nodes: {
    ...text(`how many nodes this machine plays (up to ${maxNodes}); from two on VMs can move between them`),
    default: '1',
    coerce: (value: string) => {
      if (/^\d$/.test(value) && Number(value) >= 1 && Number(value) <= maxNodes) return Number(value);
      throw new NodeError('USAGE', `--nodes: ${JSON.stringify(value)} is no number from 1 to ${maxNodes}`);
    },
  },
} as const;

export const nodeFlags = {
  ...stateDir,
  ...nodeName,
  ...nodes,
  'api-port': count('api-port', defaultApiPort, 'port of the Kubernetes API; the next free one is taken'),
  'web-port': count(
    'web-port',
    18080,
    'port of the web page on the loopback address, or the next free one; 0: no page',
  ),
  'pod-network': {
    ...text(
      'network of the VMs: auto (an own one where this machine allows it), none (user networking), or its IPv4 range',
    ),
    default: 'auto',
    coerce: podNetwork,
  },
  'host-disk-dirs': {
    ...text(
      'directories, with commas between them, whose files VMs may have as hostDisk (besides those of the state directory)',
    ),
    default: '',
    coerce: directories,
  },
  ...verbosity,
} as const;

/** Of all commands. */
export const commonFlags = { 'no-color': toggle('no colours, also on a terminal') } as const;

const output = <T extends string>(choices: readonly T[], fallback: T) =>
  ({ output: { ...text('form of the answer'), choices, default: fallback, alias: 'o' } }) as const;

export const statusFlags = { ...stateDir, ...output(['table', 'json', 'yaml'], 'table') } as const;
export const listFlags = {
  ...stateDir,
  namespace: { ...text('namespace of the VMs'), default: 'default', alias: 'n' },
  all: { ...toggle('those of all namespaces'), alias: 'A' },
  ...output(outputFormats, 'table'),
} as const;
export const usersFlags = { ...stateDir, ...output(outputFormats, 'table') } as const;
export const urlFlags = { ...stateDir, 'read-only': toggle('an address for looking only') } as const;
export const kubeconfigFlags = {
  ...stateDir,
  user: text('an ordinary user, who is made, or gets a new token; without it the kubeconfig is your own'),
  namespace: { ...text('the only namespace of the user (default: all)'), alias: 'n' },
  'read-only': toggle('the user may look at objects, and do nothing'),
  duration: {
    ...text('how long the token is good, such as 12h or 30d (default: until it is revoked)'),
    coerce: duration,
  },
  output: { ...text('file to write it to, for you only (default: standard output)'), alias: 'o' },
  revoke: toggle('end the right of the user at once'),
} as const;

export const vmFlags = {
  ...stateDir,
  namespace: { ...text('namespace of the VM'), default: 'default', alias: 'n' },
} as const;

export const sshFlags = {
  ...vmFlags,
  user: { ...text('who to log in as (default: root)'), alias: 'l' },
  identity: { ...text('file of the private key (default: the node’s own key)'), alias: 'i' },
  port: count('port', 22, 'where the SSH server in the guest listens'),
} as const;

export const scpFlags = { ...sshFlags, recursive: { ...toggle('whole directories'), alias: 'r' } } as const;

export const accessFlags = {
  view: toggle('look on beside its user; nothing is sent to the guest, and no input is needed'),
  take: toggle('take it over from its user'),
} as const;

export const apiserverFlags = {
  ...stateDir,
  host: { ...text('loopback address to listen on'), default: '127.0.0.1' },
  port: count('port', defaultApiPort, 'port to listen on'),
  ...nodeName,
  ...nodes,
  ...verbosity,
} as const;

export const upFlags = { ...nodeFlags, once: toggle('then delete the VM, check and leave') } as const;
export const stopFlags = { ...stateDir, 'keep-vms': toggle('leave the VMs running') } as const;
export const vncFlags = {
  ...vmFlags,
  ...accessFlags,
  port: count('port', 0, 'port on the loopback address; 0: any that is free'),
} as const;
export const screenshotFlags = {
  ...vmFlags,
  output: { ...text('file; - is standard output (default: NAME.png)'), alias: 'o' },
} as const;
export const rebootFlags = { ...vmFlags, force: toggle('reset it, whatever it is doing') } as const;
export const migrateFlags = {
  ...vmFlags,
  to: text('the node to move to (default: the scheduler chooses)'),
  'no-wait': toggle('only begin; do not wait until it is there'),
} as const;
export const imageAddFlags = {
  ...stateDir,
  checksum: text('what the file has to have, as it is given: sha256: (md5:, sha1:, sha512:) and the digits'),
  'ca-file': text('PEM file of authorities that vouch for the server, besides those of the system'),
  force: toggle('replace the image although VMs use it'),
} as const;
export const imageListFlags = { ...stateDir, quiet: { ...toggle('only the references'), alias: 'q' } } as const;
export const imageRemoveFlags = { ...stateDir, force: toggle('remove it although VMs use it') } as const;
export const explainFlags = {
  ...vmFlags,
  labels: toggle('labels of the node instead, those whose keys contain NAME'),
  timeline: toggle('how the VM came to run instead: a waterfall from its creation to its login prompt'),
  output: { ...text('form of the answer'), choices: ['text', 'json', 'yaml'], default: 'text', alias: 'o' },
  socket: {
    ...text('socket of the agent, in a pod: <private dir>/virt-handler.sock'),
    coerce: (file: string) => named('socket', file, 'socket'),
  },
} as const;

const onOrOff: readonly (readonly [string, Options])[] = Object.entries<Options>({
  ...{ ...commonFlags, ...upFlags, ...stopFlags, ...accessFlags, ...rebootFlags, ...migrateFlags, ...explainFlags },
  ...{ ...listFlags, ...urlFlags, ...kubeconfigFlags },
  ...{ ...imageAddFlags, ...imageListFlags, ...imageRemoveFlags, ...scpFlags },
}).filter(([, flag]) => flag.type === 'boolean');

/** Names of all flags that are on or off: yargs takes `--keep-vms=maybe` for "off". */
export const toggles: ReadonlySet<string> = new Set(onOrOff.map(([name]) => name));

/** `-A` and the like, by those names. */
export const shortToggles: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  onOrOff.map(([name, { alias }]) => [name, typeof alias === 'string' ? [`-${alias}`] : []]),
);

/** An empty one would be the current directory, or none: a script's variable that is not set. */
function named<T extends string | undefined>(flag: string, value: T, what: string): T {
  if (value !== '') return value;
  throw new NodeError('USAGE', `--${flag}: no ${what} is given`);
}

/** Milliseconds. */
function duration(value: string): number {
  const [, count = '', unit = ''] = /^([1-9]\d{0,5})([smhd])$/.exec(value) ?? [];
  const size = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[unit];
  if (size !== undefined) return Number(count) * size;
  const text = `${JSON.stringify(value)} is no time such as 90m, 12h or 30d`;
  throw new NodeError('USAGE', `--duration: ${text}`);
}

function podNetwork(wish: string): string {
  if (isPodNetworkWish(wish)) return wish;
  const range = 'a range such as 10.50.0.0/24, of /16 to /28 and not within 10.0.2.0/24';
  throw new NodeError('USAGE', `--pod-network: ${JSON.stringify(wish)} is neither auto nor none nor ${range}`);
}

function directories(list: string): string[] {
  const dirs = list.split(',').filter(Boolean);
  const wrong = dirs.find((dir) => !path.isAbsolute(dir) || path.resolve(dir) === '/');
  if (wrong === undefined) return dirs.map((dir) => path.resolve(dir));
  throw new NodeError('USAGE', `--host-disk-dirs: ${JSON.stringify(wrong)} is no absolute path of a directory below /`);
}
