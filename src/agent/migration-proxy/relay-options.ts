import { chmodSync, mkdirSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { FlagError, type FlagTable, flagUsage, type Logger, parseGoFlags, systemClock } from '../../base/index.ts';
import { hasNetworkLink } from '../../host/index.ts';
import { stallFlag, stallProblem } from '../flags.ts';
import { HaproxyProxies } from './haproxy-proxies.ts';
import { migrationAddress, migrationInterface, noMigrationAddress } from './migration-address.ts';
import { MigrationRelay } from './migration-relay.ts';

/** Below the agent's `--kubevirt-private-dir`. */
const relayDirectoryName = 'migration-relay';

export const relayFlags = {
  v: { kind: 'int', short: 'v', fallback: 2, help: 'log verbosity' },
  'pod-ip-address': { kind: 'string', fallback: '', help: 'address announced to migration sources; required' },
  directory: {
    kind: 'string',
    fallback: `/var/run/kubevirt-private/${relayDirectoryName}`,
    help: `socket and records: the folder ${relayDirectoryName} of the agent's --kubevirt-private-dir`,
  },
  'migration-stall-seconds': stallFlag,
  'graceful-shutdown-seconds': { kind: 'int', fallback: 300, help: 'wait this long for migrations at shutdown' },
} as const satisfies FlagTable;

export interface RelayOptions {
  readonly verbosity: number;
  readonly podIp: string;
  readonly directory: string;
  readonly gracefulShutdownMs: number;
  readonly stallSeconds: number;
}

/** Undefined: the user asked for `--help`. Throws FlagError. */
export function parseRelayOptions(argv: readonly string[]): RelayOptions | undefined {
  const flags = parseGoFlags(relayFlags, argv);
  if (!flags) return undefined;
  const { v: verbosity, 'pod-ip-address': podIp, directory, 'graceful-shutdown-seconds': seconds } = flags;
  if (podIp === '')
    throw new FlagError('NO_VALUE', '--pod-ip-address is missing: give the address of this pod ($(MY_POD_IP))');
  if (!path.isAbsolute(directory)) throw new FlagError('BAD_VALUE', '--directory takes an absolute path');
  if (seconds < 0) throw new FlagError('BAD_VALUE', '--graceful-shutdown-seconds must not be less than 0');
  const stallSeconds = flags['migration-stall-seconds'];
  const problem = stallProblem(stallSeconds);
  if (problem !== undefined) throw new FlagError('BAD_VALUE', problem);
  return { verbosity, podIp, directory, gracefulShutdownMs: seconds * 1000, stallSeconds };
}

export function relayUsage(): string {
  return flagUsage('virt-migration-relay', relayFlags);
}

/** Where an agent with this private directory finds its relay. */
export function relayDirectory(privateDir: string): string {
  return path.join(privateDir, relayDirectoryName);
}

/** The whole program. The directory is made, or taken from all others. */
export function makeRelay(
  { podIp, directory, stallSeconds }: RelayOptions,
  deps: { readonly pid: number; readonly log: Logger },
): MigrationRelay {
  const { pid, log } = deps;
  mkdirSync(directory, { recursive: true });
  chmodSync(directory, 0o700);
  const address = migrationAddress(networkInterfaces(), hasNetworkLink(migrationInterface), podIp);
  const proxies = new HaproxyProxies(
    { directory: path.join(directory, 'proxies'), address: address ?? podIp, stallSeconds },
    { objection: () => (address === undefined ? noMigrationAddress : undefined), clock: systemClock, log },
  );
  return new MigrationRelay({ directory, pid }, { proxies, clock: systemClock, log });
}
