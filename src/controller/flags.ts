import { isAbsolute } from 'node:path';
import { CodedError, type FlagTable, type FlagValues, flagUsage, parseGoFlags } from '../base/index.ts';
import type { MigrationRetries } from './migration/index.ts';
import { isReservedKey } from './synced-metadata.ts';

const certificates = '/etc/virt-controller/certificates';
const later = 'accepted, not used yet: ';
const needless = 'accepted, not needed: ';

/** Upstream's flags and defaults (pkg/virt-controller/watch/application.go, AddFlags), then ours. */
export const controllerFlags = {
  v: { kind: 'int', short: 'v', fallback: 2, help: 'log verbosity' },
  kubeconfig: { kind: 'string', fallback: '', help: 'kubeconfig file; empty: service account of the pod' },
  master: { kind: 'string', fallback: '', help: 'URL of the API server, wins over the kubeconfig' },
  'launcher-image': { kind: 'string', fallback: 'virt-launcher', help: 'image of the compute container' },
  'vm-controller-threads': { kind: 'int', fallback: 3, help: 'VMs worked on side by side' },
  'vmi-controller-threads': { kind: 'int', fallback: 10, help: 'VMIs worked on side by side' },
  'migration-controller-threads': { kind: 'int', fallback: 3, help: 'migrations worked on side by side' },
  'migration-retries': {
    kind: 'int',
    fallback: 1,
    help: 'how often a migration that a loss ended before the guest had moved is tried again: 1 or 0',
  },
  'node-controller-threads': { kind: 'int', fallback: 3, help: 'nodes whose agents are looked after side by side' },
  'evacuation-controller-threads': { kind: 'int', fallback: 3, help: 'nodes emptied side by side' },
  'rs-controller-threads': { kind: 'int', fallback: 3, help: 'replica sets worked on side by side' },
  'snapshot-controller-threads': { kind: 'int', fallback: 6, help: 'snapshots of VMs worked on side by side' },
  'restore-controller-threads': { kind: 'int', fallback: 3, help: 'restores of VMs worked on side by side' },
  'clone-controller-threads': { kind: 'int', fallback: 3, help: 'clones of VMs worked on side by side' },
  'export-controller-threads': { kind: 'int', fallback: 3, help: 'exports worked on side by side' },
  'backup-controller-threads': { kind: 'int', fallback: 6, help: 'backups worked on side by side' },
  'pool-controller-threads': { kind: 'int', fallback: 3, help: 'pools worked on side by side' },
  listen: { kind: 'string', fallback: '0.0.0.0', help: 'address of the HTTPS server' },
  port: { kind: 'int', fallback: 8182, help: 'port of /healthz, /leader and /metrics; 0: nothing is served' },
  'launcher-qemu-timeout': {
    kind: 'int',
    fallback: 240,
    help: 'seconds until a launcher without a guest gives up, and up to 119 more',
  },
  'launcher-subgid': { kind: 'int', fallback: 107, help: 'group of the files of launcher pods' },
  'exporter-image': { kind: 'string', fallback: 'virt-exportserver', help: 'image of exporter pods' },
  'export-ca-dir': {
    kind: 'string',
    fallback: '/etc/virt-controller/exportca',
    help: 'tls.crt and tls.key of the authority that signs the certificates of exporter pods',
  },
  'backup-ca-dir': {
    kind: 'string',
    fallback: '/etc/virt-controller/backupca',
    help: 'tls.crt and tls.key of the authority that signs the certificates by which launchers bring backups to exporter pods',
  },
  'image-pull-secret': { kind: 'string', fallback: '', help: 'pull secret of the launcher image' },
  ...path('kubevirt-share-dir', '/var/run/kubevirt'),
  ...path('ephemeral-disk-dir', '/var/run/kubevirt-ephemeral-disks'),
  ...path('container-disk-dir', '/var/run/kubevirt/container-disks'),
  ...path('hotplug-disk-dir', '/var/run/kubevirt/hotplug-disks'),
  'prom-cert-file': {
    kind: 'string',
    fallback: `${certificates}/tls.crt`,
    help: 'certificate of the server; followed',
  },
  'prom-key-file': { kind: 'string', fallback: `${certificates}/tls.key`, help: 'its key' },
  ...threads('disruption-budget', 3),
  'snapshot-controller-resync-period': {
    kind: 'duration',
    fallback: 300_000,
    help: `${needless}snapshots are looked at when something of them changes`,
  },
  'node-topology-update-period': {
    kind: 'duration',
    fallback: 30_000,
    help: `${needless}labels follow nodes and guests at once`,
  },
  ...syncedKeys('annotations'),
  ...syncedKeys('labels'),
  'leader-elect-resource-lock': { kind: 'string', fallback: 'leases', help: 'kind of the lock' },
  'leader-elect-lease-duration': { kind: 'duration', fallback: 15_000, help: 'how long a silent leader stays one' },
  'leader-elect-renew-deadline': { kind: 'duration', fallback: 10_000, help: 'a leader that cannot renew gives up' },
  'leader-elect-retry-period': { kind: 'duration', fallback: 2_000, help: 'time between tries' },
  'leader-elect': { kind: 'bool', fallback: true, help: 'work only while holding the lease; false: a single replica' },
  'explain-socket': { kind: 'string', fallback: '', help: 'Unix socket for questions on decisions; empty: none' },
  'standalone-scheduler': { kind: 'bool', fallback: false, help: 'bind launcher pods to nodes (no kube-scheduler)' },
  'standalone-runtime-user': {
    kind: 'int',
    fallback: -1,
    help: 'user of new launchers without the gate Root: 107 or 0; -1: 0 with --standalone-scheduler, else 107',
  },
} as const satisfies FlagTable;

export interface ControllerFlags {
  readonly verbosity: number;
  readonly kubeconfig: string;
  readonly master: string;
  readonly launcherImage: string;
  readonly imagePullSecret: string;
  readonly qemuTimeoutSeconds: number;
  readonly launcherGroup: number;
  /** Keys, or how they begin (`a.io/*`). */
  readonly synced: { readonly annotations: readonly string[]; readonly labels: readonly string[] };
  readonly vmWorkers: number;
  readonly vmiWorkers: number;
  readonly migrationWorkers: number;
  readonly migrationRetries: MigrationRetries;
  readonly evacuationWorkers: number;
  readonly nodeWorkers: number;
  readonly replicaSetWorkers: number;
  readonly poolWorkers: number;
  readonly snapshotWorkers: number;
  readonly restoreWorkers: number;
  readonly cloneWorkers: number;
  readonly exportWorkers: number;
  readonly backupWorkers: number;
  readonly exporterImage: string;
  /** Absolute path. */
  readonly exportCaDir: string;
  readonly backupCaDir: string;
  readonly runtimeUser: number;
  readonly standaloneScheduler: boolean;
  /** Absolute path; empty: no socket. */
  readonly explainSocket: string;
  /** Flags that were given and that nothing here uses. */
  readonly unused: readonly string[];
  /** Undefined: nothing is served. */
  readonly server: { address: string; port: number; keyPair: { certFile: string; keyFile: string } } | undefined;
  /** Undefined: no election, this is the only controller. */
  readonly lease: { durationMs: number; renewDeadlineMs: number; retryPeriodMs: number } | undefined;
}

/** A flag's value cannot be used; the message says what to change. */
export class ControllerFlagsError extends CodedError<'BAD_FLAG'> {}

/** Undefined: `--help` was asked for. Throws FlagError or ControllerFlagsError (usage, exit 2). */
export function parseControllerFlags(argv: readonly string[]): ControllerFlags | undefined {
  const flags = parseGoFlags(controllerFlags, argv);
  if (!flags) return undefined;
  return {
    verbosity: flags.v,
    kubeconfig: flags.kubeconfig,
    master: flags.master,
    launcherImage: flags['launcher-image'],
    imagePullSecret: flags['image-pull-secret'],
    qemuTimeoutSeconds: positive('--launcher-qemu-timeout', flags['launcher-qemu-timeout']),
    launcherGroup: positive('--launcher-subgid', flags['launcher-subgid']),
    synced: { annotations: keysOf('annotations', flags), labels: keysOf('labels', flags) },
    vmWorkers: positive('--vm-controller-threads', flags['vm-controller-threads']),
    vmiWorkers: positive('--vmi-controller-threads', flags['vmi-controller-threads']),
    migrationWorkers: positive('--migration-controller-threads', flags['migration-controller-threads']),
    migrationRetries: retriesOf(flags['migration-retries']),
    evacuationWorkers: positive('--evacuation-controller-threads', flags['evacuation-controller-threads']),
    nodeWorkers: positive('--node-controller-threads', flags['node-controller-threads']),
    replicaSetWorkers: positive('--rs-controller-threads', flags['rs-controller-threads']),
    poolWorkers: positive('--pool-controller-threads', flags['pool-controller-threads']),
    snapshotWorkers: positive('--snapshot-controller-threads', flags['snapshot-controller-threads']),
    restoreWorkers: positive('--restore-controller-threads', flags['restore-controller-threads']),
    cloneWorkers: positive('--clone-controller-threads', flags['clone-controller-threads']),
    exportWorkers: positive('--export-controller-threads', flags['export-controller-threads']),
    backupWorkers: positive('--backup-controller-threads', flags['backup-controller-threads']),
    exporterImage: flags['exporter-image'],
    exportCaDir: absolute('--export-ca-dir', flags['export-ca-dir']),
    backupCaDir: absolute('--backup-ca-dir', flags['backup-ca-dir']),
    runtimeUser: runtimeUserOf(flags),
    standaloneScheduler: flags['standalone-scheduler'],
    unused: unusedOf(flags),
    explainSocket: absoluteOrNone('--explain-socket', flags['explain-socket']),
    server: serverOf(flags),
    lease: flags['leader-elect'] ? leaseOf(flags) : undefined,
  };
}

export function controllerUsage(): string {
  return flagUsage('virt-controller', controllerFlags);
}

function runtimeUserOf(flags: FlagValues<typeof controllerFlags>): number {
  const user = flags['standalone-runtime-user'];
  if (user === -1) return flags['standalone-scheduler'] ? 0 : 107;
  if (user === 0 || user === 107) return user;
  throw bad('--standalone-runtime-user must be 107, 0 or -1');
}

/** They have another value than the one that counts. */
function unusedOf(flags: FlagValues<typeof controllerFlags>): string[] {
  const given: Readonly<Record<string, unknown>> = flags;
  const unused = Object.entries(controllerFlags).filter(([, { help }]) =>
    [later, needless].some((prefix) => help.startsWith(prefix)),
  );
  return unused.flatMap(([name, { fallback }]) => (given[name] === fallback ? [] : [`--${name}`]));
}

/** Keys of KubeVirt and of the pod network are not the user's to take over: programs know pods and VMIs by them. */
function keysOf(kind: 'annotations' | 'labels', flags: FlagValues<typeof controllerFlags>): string[] {
  const name = `additional-launcher-${kind}-sync` as const;
  const keys = flags[name]
    .split(',')
    .map((key) => key.trim())
    .filter((key) => key !== '');
  const wrong = keys.find((key) => isReservedKey(key.replace(/\*$/, '')) || !/^[^*]+\*?$/.test(key));
  if (wrong === undefined) return keys;
  throw bad(
    `--${name}: ${wrong} cannot be taken over: name keys, or how they begin (vendor.io/*), none of kubevirt.io or k8s.v1.cni.cncf.io`,
  );
}

function retriesOf(given: number): MigrationRetries {
  if (given === 0 || given === 1) return given;
  throw bad('--migration-retries must be 1 or 0: a migration is tried again once, or not at all');
}

function serverOf(flags: FlagValues<typeof controllerFlags>): ControllerFlags['server'] {
  const { port, listen: address, 'prom-cert-file': certFile, 'prom-key-file': keyFile } = flags;
  if (!(port >= 0 && port < 65_536)) throw bad('--port must be 0 to 65535');
  return port === 0 ? undefined : { address, port, keyPair: { certFile, keyFile } };
}

function leaseOf(flags: FlagValues<typeof controllerFlags>): NonNullable<ControllerFlags['lease']> {
  if (flags['leader-elect-resource-lock'] !== 'leases') throw bad('--leader-elect-resource-lock must be leases');
  const durationMs = positive('--leader-elect-lease-duration', flags['leader-elect-lease-duration']);
  const renewDeadlineMs = positive('--leader-elect-renew-deadline', flags['leader-elect-renew-deadline']);
  const retryPeriodMs = positive('--leader-elect-retry-period', flags['leader-elect-retry-period']);
  if (durationMs <= renewDeadlineMs || renewDeadlineMs <= retryPeriodMs) {
    throw bad(
      '--leader-elect-lease-duration must be above --leader-elect-renew-deadline, and that above the retry period',
    );
  }
  return { durationMs, renewDeadlineMs, retryPeriodMs };
}

function absolute(flag: string, file: string): string {
  if (isAbsolute(file)) return file;
  throw bad(`${flag} must be an absolute path`);
}

function absoluteOrNone(flag: string, file: string): string {
  if (file === '' || isAbsolute(file)) return file;
  throw bad(`${flag} must be an absolute path, or empty`);
}

function positive(flag: string, value: number): number {
  if (value > 0) return value;
  throw bad(`${flag} must be above 0`);
}

function bad(message: string): ControllerFlagsError {
  return new ControllerFlagsError('BAD_FLAG', message);
}

function path<Name extends string>(name: Name, fallback: string) {
  return { [name]: { kind: 'string', fallback, help: `${later}path` } } as Record<
    Name,
    { kind: 'string'; fallback: string; help: string }
  >;
}

function syncedKeys<Kind extends 'annotations' | 'labels'>(kind: Kind) {
  const help = `${kind} of VM templates that VMIs and their pods get, also later: keys, with commas; vendor.io/* for all that begin so, which takes none away`;
  return { [`additional-launcher-${kind}-sync`]: { kind: 'string', fallback: '', help } } as Record<
    `additional-launcher-${Kind}-sync`,
    { kind: 'string'; fallback: string; help: string }
  >;
}

function threads<Name extends string>(name: Name, fallback: number) {
  return { [`${name}-controller-threads`]: { kind: 'int', fallback, help: `${later}workers` } } as Record<
    `${Name}-controller-threads`,
    { kind: 'int'; fallback: number; help: string }
  >;
}
