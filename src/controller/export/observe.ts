import {
  controllerOf,
  type Key,
  labels,
  type Pod,
  resources,
  type Service,
  type VirtualMachineExport,
} from '../../api/index.ts';
import { type Clock, parseGoDurationMs } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import type { ReadYourWrites } from '../../reconcile/index.ts';
import { orUnclear } from '../reconciling.ts';
import type { ExportAccess } from './access.ts';
import { namesOf } from './names.ts';
import type { CertificateTimes, ExportObservation, PresentExport, SourceFacts } from './observation.ts';
import { claimKeys, type SourceDeps, sourceOf } from './source.ts';

export interface ObserveDeps extends SourceDeps {
  readonly client: Pick<KubeClient, 'list'>;
  readonly exports: ReadYourWrites<VirtualMachineExport>;
  readonly ownPods: Pick<ReadYourWrites<Pod>, 'get' | 'list'>;
  readonly services: Pick<ReadYourWrites<Service>, 'get'>;
  readonly access: Pick<ExportAccess, 'read'>;
  readonly certificates: () => CertificateTimes;
  readonly clock: Clock;
}

/** Upstream's. */
const defaultTtlMs = 2 * 3_600_000;

export async function observeExport(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<ExportObservation> {
  const vmExport = deps.exports.get(key);
  const now = deps.clock.now();
  if (!vmExport) return { kind: 'absent', key, uid: '', now };
  const base = { key, uid: vmExport.metadata.uid ?? '', now, vmExport };
  const read = async (): Promise<ExportObservation> => ({
    kind: 'present',
    ...base,
    ...(await factsOf(vmExport, deps, signal)),
  });
  return orUnclear(base, read, signal);
}

type Facts = Omit<PresentExport, 'kind' | 'key' | 'uid' | 'now' | 'vmExport' | 'lastRule'>;

async function factsOf(vmExport: VirtualMachineExport, deps: ObserveDeps, signal: AbortSignal): Promise<Facts> {
  const { namespace, uid } = vmExport.metadata;
  const names = namesOf(vmExport);
  const source = sourceOf(vmExport, deps);
  const service = deps.services.get(`${namespace}/${names.service}`);
  const pod = deps.ownPods.get(`${namespace}/${names.pod}`);
  const isOurs = (object: Pod | Service) => controllerOf(object)?.uid === uid;
  const wrong = [service, pod].find((object) => object && !isOurs(object));
  return {
    source,
    expiresAt: expiryOf(vmExport),
    service,
    pod: pod && isOurs(pod) ? pod : undefined,
    occupied: wrong && `${wrong === service ? 'Service' : 'Pod'} ${wrong.metadata.name} is another’s: delete it`,
    users: await usersOf(vmExport, source, pod, deps, signal),
    access: await deps.access.read(signal),
    certificates: deps.certificates(),
  };
}

export function expiryOf({ metadata, spec, status }: VirtualMachineExport): Date {
  const created = Date.parse(metadata.creationTimestamp ?? '');
  const ttlMs = (spec.ttlDuration && parseGoDurationMs(spec.ttlDuration)) || defaultTtlMs;
  const known = Date.parse(status?.ttlExpirationTime ?? '');
  return new Date(Number.isNaN(created) ? known : created + ttlMs);
}

/** Before an exporter pod is made all pods are looked at, as those of others are not followed; while it runs those of VMs. */
async function usersOf(
  { metadata: { namespace } }: VirtualMachineExport,
  source: SourceFacts,
  pod: Pod | undefined,
  { client, ownPods }: ObserveDeps,
  signal: AbortSignal,
): Promise<string[]> {
  if (source.problem || source.volumes.length === 0) return [];
  const pods = pod ? ownPods.list() : (await client.list<Pod>(resources.pods, { namespace, signal })).items;
  const claims = claimKeys(source);
  return pods.filter((each) => hasOneOf(each, claims)).map(({ metadata }) => metadata.name);
}

/** An exporter pod only reads, whoever made it. */
function hasOneOf({ metadata, spec, status }: Pod, claims: ReadonlySet<Key>): boolean {
  const isOver = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  const isExporter = metadata.labels?.[labels.exportService] !== undefined;
  if (isOver || isExporter) return false;
  return (spec.volumes ?? []).some(({ persistentVolumeClaim: claim }) =>
    claims.has(`${metadata.namespace}/${claim?.claimName}`),
  );
}
