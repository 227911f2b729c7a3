import { CodedError, type FlagValues, flagUsage, parseGoFlags } from '../base/index.ts';
import type { KeyPairPaths } from '../tls/index.ts';
import { agentFlags, stallProblem } from './flags.ts';

/** What of the environment counts. Read by src/bin. */
export interface AgentEnvironment {
  readonly hostName: string;
  /** `NODE_NAME`: launcher sockets of other nodes' pods are not looked at. */
  readonly nodeName?: string | undefined;
  /** `KUBEVIRT_PODS_DIR`; upstream's constant `/pods` unless set. */
  readonly podsDir?: string | undefined;
  /** Of this agent's pod; KubeVirt's usual one unless known. */
  readonly installNamespace?: string | undefined;
}

/** The console and lifecycle server. */
export interface ConsoleSettings {
  /** `--listen` */
  readonly address: string;
  /** 0: any that is free. */
  readonly port: number;
  readonly keyPair: KeyPairPaths;
  /** Whose certificates are trusted. */
  readonly caConfigMap: { readonly namespace: string; readonly name: string };
  /** Certificates do not come from KubeVirt: their names say nothing, and they may have intermediates. */
  readonly externallyManaged: boolean;
}

/** The server of metrics and health, and the one of VM statistics. */
export interface MetricsSettings {
  /** `--listen` */
  readonly address: string;
  /** 0: any that is free. */
  readonly port: number;
  readonly vmStatsPort: number;
  /** `/metrics` requests at a time; no limit: infinite. */
  readonly maxRequests: number;
}

/** Certificates of the streams of live migrations. */
export interface MigrationSettings {
  readonly server: KeyPairPaths;
  readonly migrationClient: KeyPairPaths;
  /** Where there is no `migrationClient`. */
  readonly client: KeyPairPaths;
  /** `--post-copy-resume-seconds`: how long a post-copy whose streams broke is resumed. */
  readonly resumeMs: number;
  /** `--migration-stall-seconds`: frozen streams are ended after so long; with a relay its own flag counts. */
  readonly stallSeconds: number;
  /** `--migration-relay`: its processes are kept by the relay in the private directory. */
  readonly isRelayed: boolean;
  /** `--migration-cn-types` */
  readonly clientTypes: readonly string[];
  readonly externallyManaged: boolean;
}

export interface AgentOptions {
  readonly verbosity: number;
  readonly kubeconfig: string;
  readonly master: string;
  readonly nodeName: string;
  readonly podIp: string;
  readonly shareDir: string;
  readonly privateDir: string;
  readonly podsDir: string;
  readonly watchdogTimeoutMs: number;
  readonly domainResyncPeriodMs: number;
  /** How long running migrations are waited for when the agent leaves. */
  readonly gracefulShutdownMs: number;
  readonly console: ConsoleSettings;
  readonly metrics: MetricsSettings;
  /** `--kubelet-root` */
  readonly kubeletRoot: string;
  /** Devices of one kind that the kubelet may hand out. */
  readonly maxDevices: number;
  /** Labels of the node that follow from libvirt's capability files. */
  readonly nodeLabels: boolean;
  /** Of the web page on the loopback address; 0: none. */
  readonly webPort: number;
  /** Undefined: no streams of live migrations are carried. */
  readonly migration: MigrationSettings | undefined;
}

/** The command line or the environment cannot be used; the message says what to change. */
export class AgentOptionsError extends CodedError<'NO_POD_IP' | 'NODE_NAME_DIFFERS' | 'BAD_PERIOD' | 'BAD_PORT'> {}

/** Undefined: `--help` was asked for. Throws FlagError (usage, exit 2) or AgentOptionsError. */
export function parseAgentOptions(argv: readonly string[], environment: AgentEnvironment): AgentOptions | undefined {
  const flags = parseGoFlags(agentFlags, argv);
  if (!flags) return undefined;
  const nodeName = nodeNameOf(flags, environment);
  const podIp = flags['pod-ip-address'];
  if (podIp === '') {
    throw new AgentOptionsError(
      'NO_POD_IP',
      '--pod-ip-address is missing: give the address of this pod ($(MY_POD_IP))',
    );
  }
  const watchdogTimeoutMs = positive('--watchdog-timeout', flags['watchdog-timeout']);
  const resyncSeconds = positive('--domain-resync-period-seconds', flags['domain-resync-period-seconds']);
  return {
    verbosity: flags.v,
    kubeconfig: flags.kubeconfig,
    master: flags.master,
    nodeName,
    podIp,
    shareDir: flags['kubevirt-share-dir'],
    privateDir: flags['kubevirt-private-dir'],
    podsDir: environment.podsDir || '/pods',
    watchdogTimeoutMs,
    domainResyncPeriodMs: resyncSeconds * 1000,
    gracefulShutdownMs: notNegative('--graceful-shutdown-seconds', flags['graceful-shutdown-seconds']) * 1000,
    console: consoleSettings(flags, environment),
    metrics: {
      address: flags.listen,
      port: port('--port', flags.port),
      vmStatsPort: port('--vmstats-server-port', flags['vmstats-server-port']),
      // As upstream: 0 is no limit.
      maxRequests: notNegative('--max-metric-requests', flags['max-metric-requests']) || Number.POSITIVE_INFINITY,
    },
    kubeletRoot: flags['kubelet-root'],
    maxDevices: positive('--max-devices', flags['max-devices']),
    nodeLabels: flags['enable-node-labeller'],
    webPort: port('--web-port', flags['web-port']),
    migration: flags['live-migration'] ? migrationSettings(flags) : undefined,
  };
}

export function agentUsage(): string {
  return flagUsage('virt-handler', agentFlags);
}

/** Two names would make the agent serve one node's VMIs with another node's pods. */
function nodeNameOf(flags: FlagValues<typeof agentFlags>, environment: AgentEnvironment): string {
  const nodeName = flags['hostname-override'] || environment.hostName;
  if (environment.nodeName && environment.nodeName !== nodeName) {
    throw new AgentOptionsError(
      'NODE_NAME_DIFFERS',
      `NODE_NAME is "${environment.nodeName}" and --hostname-override is "${nodeName}": both must name this node`,
    );
  }
  return nodeName;
}

function consoleSettings(flags: FlagValues<typeof agentFlags>, environment: AgentEnvironment): ConsoleSettings {
  return {
    address: flags.listen,
    port: port('--console-server-port', flags['console-server-port']),
    keyPair: { certFile: flags['tls-cert-file'], keyFile: flags['tls-key-file'] },
    caConfigMap: { namespace: environment.installNamespace || 'kubevirt', name: flags['ca-configmap-name'] },
    externallyManaged: flags['externally-managed'],
  };
}

function migrationSettings(flags: FlagValues<typeof agentFlags>): MigrationSettings {
  return {
    server: { certFile: flags['tls-cert-file'], keyFile: flags['tls-key-file'] },
    migrationClient: {
      certFile: flags['migration-client-cert-file'],
      keyFile: flags['migration-client-key-file'],
    },
    client: { certFile: flags['client-cert-file'], keyFile: flags['client-key-file'] },
    clientTypes: flags['migration-cn-types'],
    isRelayed: flags['migration-relay'],
    stallSeconds: stallSeconds(flags['migration-stall-seconds']),
    resumeMs: notNegative('--post-copy-resume-seconds', flags['post-copy-resume-seconds']) * 1000,
    externallyManaged: flags['externally-managed'],
  };
}

function port(flag: string, value: number): number {
  if (value >= 0 && value <= 65_535) return value;
  throw new AgentOptionsError('BAD_PORT', `${flag} must be between 0 and 65535`);
}

function positive(flag: string, value: number): number {
  if (value > 0) return value;
  throw new AgentOptionsError('BAD_PERIOD', `${flag} must be more than 0`);
}

function stallSeconds(value: number): number {
  const problem = stallProblem(value);
  if (problem === undefined) return value;
  throw new AgentOptionsError('BAD_PERIOD', problem);
}

function notNegative(flag: string, value: number): number {
  if (value >= 0) return value;
  throw new AgentOptionsError('BAD_PERIOD', `${flag} must not be less than 0`);
}
