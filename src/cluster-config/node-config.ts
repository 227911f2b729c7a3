import { type LabelSelector, readLabelSelector } from '../api/index.ts';
import { isRecord, memberAt } from '../base/index.ts';
import { type Gates, readGates } from './feature-gates.ts';
import { type RateLimitSettings, rateLimitOf } from './rate-limit.ts';

/** What the node's services read of the KubeVirt object, with its defaults. Plain data. */
export interface NodeConfig {
  readonly gates: Gates;
  /** Of this node: its own value wins over that of all agents. Undefined: it is not said, `-v` counts. */
  readonly logVerbosity: number | undefined;
  /** Of requests to the API server. */
  readonly rateLimit: RateLimitSettings;
  /** Keys of `obsoleteCPUModels`, sorted; undefined: it is not said, the built-in list counts. */
  readonly obsoleteCpuModels: readonly string[] | undefined;
  /** As given, of any shape: who uses it takes it apart and says what cannot be used. */
  readonly permittedHostDevices: unknown;
  readonly mediatedDevicesConfiguration: unknown;
  /** `persistentReservationConfiguration.enabled`, and where it is not said the old gate of that name. */
  readonly persistentReservation: boolean;
  readonly tdxAttestation: { readonly enforced: boolean; readonly qgsSocketPath: string };
  /** `hypervisors[0].name`, `kvm` unless the gate ConfigurableHypervisor lets it be another. */
  readonly hypervisor: string;
  /** Nodes that shall share memory pages; undefined: none. */
  readonly ksmNodes: LabelSelector | undefined;
  readonly clusterProfiler: boolean;
  /** As given. */
  readonly tlsConfiguration: unknown;
}

/** Upstream's (`pkg/virt-config/virt-config.go`). */
const defaultRateLimit: RateLimitSettings = { qps: 50, burst: 100 };
const defaultQuoteSocket = '/var/run/tdx-qgs/qgs.socket';

/** `configuration` has no unusable fields. */
export function readNodeConfig(configuration: unknown, nodeName: string): NodeConfig {
  const gates = readGates(configuration);
  const obsolete = memberAt(configuration, 'obsoleteCPUModels');
  return {
    gates,
    logVerbosity: logVerbosity(configuration, nodeName),
    rateLimit: rateLimitOf(configuration, 'handlerConfiguration', defaultRateLimit),
    obsoleteCpuModels: isRecord(obsolete) ? Object.keys(obsolete).sort() : undefined,
    permittedHostDevices: memberAt(configuration, 'permittedHostDevices'),
    mediatedDevicesConfiguration: memberAt(configuration, 'mediatedDevicesConfiguration'),
    persistentReservation: persistentReservation(configuration),
    tdxAttestation: readTdxAttestation(configuration),
    hypervisor: gates.ConfigurableHypervisor ? hypervisor(configuration) : 'kvm',
    ksmNodes: readLabelSelector(memberAt(configuration, 'ksmConfiguration', 'nodeLabelSelector')),
    clusterProfiler: memberAt(configuration, 'developerConfiguration', 'clusterProfiler') === true,
    tlsConfiguration: memberAt(configuration, 'tlsConfiguration'),
  };
}

/** `configuration` may have any form. */
export function readTdxAttestation(configuration: unknown): NodeConfig['tdxAttestation'] {
  const attestation = memberAt(configuration, 'confidentialCompute', 'tdx', 'attestation');
  const quoteSocket = memberAt(attestation, 'qgsSocketPath');
  return {
    enforced: memberAt(attestation, 'enforced') === true,
    qgsSocketPath: typeof quoteSocket === 'string' && quoteSocket !== '' ? quoteSocket : defaultQuoteSocket,
  };
}

/** A value of 0 for this node counts as not given, as upstream. */
function logVerbosity(configuration: unknown, nodeName: string): number | undefined {
  const given = memberAt(configuration, 'developerConfiguration', 'logVerbosity');
  const own = memberAt(given, 'nodeVerbosity', nodeName);
  if (typeof own === 'number' && own > 0) return own;
  const all = memberAt(given, 'virtHandler');
  return typeof all === 'number' ? all : undefined;
}

function persistentReservation(configuration: unknown): boolean {
  const enabled = memberAt(configuration, 'persistentReservationConfiguration', 'enabled');
  if (typeof enabled === 'boolean') return enabled;
  const gates = memberAt(configuration, 'developerConfiguration', 'featureGates');
  return Array.isArray(gates) && gates.includes('PersistentReservation');
}

function hypervisor(configuration: unknown): string {
  const given = memberAt(configuration, 'hypervisors');
  const name = memberAt(Array.isArray(given) ? given[0] : undefined, 'name');
  return typeof name === 'string' && name !== '' ? name : 'kvm';
}
