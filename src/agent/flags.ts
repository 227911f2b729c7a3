import type { FlagTable } from '../base/index.ts';

const later = 'accepted, not used yet: ';

/** `--migration-stall-seconds` of agent and relay. */
export const stallFlag = {
  kind: 'int',
  fallback: 20,
  help: 'streams of a live migration that are frozen are ended after so long: a peer that takes nothing, a proxy process that does not answer; up to 10 s later: memory that does not come in post-copy',
} as const;

/** Less than that a busy machine takes now and then; more helps nobody who waits for it. */
const [leastSeconds, mostSeconds] = [5, 600];

/** What to say of a value that cannot be taken; undefined: it can. */
export function stallProblem(seconds: number): string | undefined {
  if (seconds >= leastSeconds && seconds <= mostSeconds) return undefined;
  return `--migration-stall-seconds must be between ${leastSeconds} and ${mostSeconds}`;
}

/** Upstream's flags and defaults, exactly (cmd/virt-handler/virt-handler.go, AddFlags), `--web-port` and `--live-migration`. */
export const agentFlags = {
  v: { kind: 'int', short: 'v', fallback: 2, help: 'log verbosity' },
  kubeconfig: { kind: 'string', fallback: '', help: 'kubeconfig file; empty: service account of the pod' },
  master: { kind: 'string', fallback: '', help: 'URL of the API server, wins over the kubeconfig' },
  listen: { kind: 'string', fallback: '0.0.0.0', help: 'address of the HTTPS servers' },
  port: { kind: 'int', fallback: 8185, help: 'port of metrics and /healthz' },
  'hostname-override': { kind: 'string', fallback: '', help: 'name of this node; empty: the host name' },
  'pod-ip-address': { kind: 'string', fallback: '', help: 'address announced to migration sources; required' },
  'kubevirt-share-dir': { kind: 'string', fallback: '/var/run/kubevirt', help: 'directory shared with launchers' },
  'kubevirt-private-dir': { kind: 'string', fallback: '/var/run/kubevirt-private', help: 'state of this agent' },
  'kubelet-pods-dir': { kind: 'string', fallback: '/var/lib/kubelet/pods', help: `${later}pods of the kubelet` },
  'kubelet-root': { kind: 'string', fallback: '/var/lib/kubelet', help: 'root of the kubelet' },
  'watchdog-timeout': { kind: 'duration', fallback: 30_000, help: 'a launcher silent this long is unresponsive' },
  'max-devices': { kind: 'int', fallback: 1000, help: 'devices per device plugin' },
  'max-metric-requests': { kind: 'int', fallback: 3, help: 'parallel /metrics requests' },
  'console-server-port': { kind: 'int', fallback: 8186, help: 'port of consoles and lifecycle calls' },
  'vmstats-server-port': { kind: 'int', fallback: 8187, help: 'port of VM statistics' },
  'domain-resync-period-seconds': { kind: 'int', fallback: 300, help: 'every domain is read again this often' },
  'graceful-shutdown-seconds': { kind: 'int', fallback: 300, help: 'wait this long for migrations at shutdown' },
  'enable-node-labeller': { kind: 'bool', fallback: true, help: 'CPU labels of the node' },
  'migration-cn-types': {
    kind: 'list',
    fallback: ['virt-handler', 'migration'],
    help: 'client names that may migrate to this node',
  },
  'ca-configmap-name': { kind: 'string', fallback: 'kubevirt-ca', help: 'config map of the CA bundle' },
  ...certificate(
    'client',
    '/etc/virt-handler/clientcertificates',
    'client identity of migrations where there is no migration client identity',
  ),
  ...certificate('migration-client', '/etc/virt-handler/migrationservercertificates', 'migration client identity'),
  ...certificate('tls', '/etc/virt-handler/servercertificates', 'server identity'),
  ...certificate(
    'vsock-client',
    '/etc/virt-handler/vsockclientcertificates',
    `${later}identity towards guests on VSOCK`,
  ),
  'externally-managed': {
    kind: 'bool',
    fallback: false,
    help: 'certificates have names of their own: accept any name and intermediates',
  },
  'live-migration': {
    kind: 'bool',
    fallback: true,
    help: "not upstream's: carry the streams of live migrations by HAProxy; =false refuses every migration in words",
  },
  'migration-relay': {
    kind: 'bool',
    fallback: false,
    help: "not upstream's: HAProxy is kept by virt-migration-relay, in a pod of its own, so that an update of this agent ends no migration",
  },
  'migration-stall-seconds': { ...stallFlag, help: `not upstream's: ${stallFlag.help}` },
  'post-copy-resume-seconds': {
    kind: 'int',
    fallback: 300,
    help: "not upstream's: streams that broke in post-copy are opened anew for so long, then the guest is given up",
  },
  'web-port': {
    kind: 'int',
    fallback: 0,
    help: "not upstream's: port of a web page on 127.0.0.1, whose address with its token is in the file web-url of --kubevirt-private-dir; 0: none",
  },
} as const satisfies FlagTable;

type CertificateFlags<Name extends string> = Record<
  `${Name}-cert-file` | `${Name}-key-file`,
  { kind: 'string'; fallback: string; help: string }
>;

function certificate<Name extends string>(name: Name, directory: string, help: string): CertificateFlags<Name> {
  return {
    [`${name}-cert-file`]: { kind: 'string', fallback: `${directory}/tls.crt`, help },
    [`${name}-key-file`]: { kind: 'string', fallback: `${directory}/tls.key`, help },
  } as CertificateFlags<Name>;
}
