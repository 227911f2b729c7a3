import {
  isFinalMigration,
  type Key,
  keyOf,
  labelQuery,
  labels,
  migrationEnd,
  type PersistentVolumeClaim,
  type Pod,
  resources,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { getIfThere, type Informer, type KubeClient } from '../../kube/index.ts';
import type { ReadYourWrites } from '../../reconcile/index.ts';
import { claimsByMigration, claimsByVm } from '../kept-state/index.ts';
import { type AttachmentPods, type LauncherPods, podFacts, usedClaimOf, volumesOf } from '../pod/index.ts';
import { orUnclear } from '../reconciling.ts';
import { hasTargetPhase } from './facts.ts';
import type { MigrationObservation, MigrationRetries, PluggedVolumes, Target } from './observation.ts';
import { pluggedVolumes } from './plugged.ts';
import { nextInLine, type QueueDeps } from './queue.ts';
import { backoffMs, newerOne, olderOnes, rivalOf, runningBeside } from './siblings.ts';

const noVolumes: PluggedVolumes = { claims: [], inMotion: [], attachments: [], left: [] };

export interface ObserveDeps extends Pick<QueueDeps, 'lastRuleOf'> {
  readonly attachmentPods: AttachmentPods;
  readonly client: Pick<KubeClient, 'get' | 'list'>;
  readonly migrations: ReadYourWrites<VirtualMachineInstanceMigration>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly ownPods: ReadYourWrites<Pod>;
  readonly nodes: { get(key: Key): { readonly metadata: { readonly labels?: Record<string, string> } } | undefined };
  /** With `keptStateIndexes`. */
  readonly claims: Pick<Informer<PersistentVolumeClaim>, 'get' | 'byIndex'>;
  readonly launchers: LauncherPods;
  readonly config: () => ControllerConfig;
  readonly retries: MigrationRetries;
  readonly clock: Clock;
}

/** Reads the caches; the API itself only where a cache that lags behind would fail a migration for nothing. */
export async function observeMigration(
  key: Key,
  deps: ObserveDeps,
  signal: AbortSignal,
): Promise<MigrationObservation> {
  const now = deps.clock.now();
  const migration = deps.migrations.get(key);
  if (!migration) return { kind: 'absent', key, uid: '', now };
  const known = { key, uid: migration.metadata.uid ?? '', now };
  return orUnclear(known, () => observe(migration, { kind: 'present', ...known }, deps, signal), signal);
}

async function observe(
  migration: VirtualMachineInstanceMigration,
  base: { readonly kind: 'present'; readonly key: Key; readonly uid: string; readonly now: Date },
  deps: ObserveDeps,
  signal: AbortSignal,
): Promise<MigrationObservation> {
  const { migrations, nodes, launchers, config } = deps;
  const vmi = await vmiOf(migration, deps, signal);
  const claimed = vmi ? podsOf(vmi, deps) : [];
  const { own, foreign } = vmi ? launchers.sort(vmi, claimed) : { own: [], foreign: [] };
  const claims = vmi ? claimsOf(vmi, deps) : new Map<string, PersistentVolumeClaim>();
  const isTarget = ({ metadata }: Pod) => metadata.labels?.[labels.migrationJobUid] === base.uid;
  const siblings = migrations.list().filter((each) => each.metadata.namespace === migration.metadata.namespace);
  const lasting = own.filter((pod) => !podFacts.isTemporary(pod));
  // The pod of a VMI that receives a guest is the one that this migration makes.
  const isReceived = migrationEnd(migration) === 'target';
  const sourcePod = vmi && !isReceived ? podFacts.currentPod(vmi, lasting) : undefined;
  const target = await targetOf(migration, vmi, own.filter(isTarget), { ...deps, ...base }, signal);
  const made = target.kind === 'pod' ? target.pod : undefined;
  return {
    ...base,
    migration,
    vmi,
    sourcePod,
    nodeLabels: nodes.get(vmi?.status?.nodeName ?? '')?.metadata.labels ?? {},
    claims,
    target,
    keptState: keptStateOf(migration, deps),
    plugged: vmi
      ? pluggedVolumes(vmi, { own, source: isReceived ? made : sourcePod, target: made, claims }, deps)
      : noVolumes,
    leftovers: foreign.filter(isTarget),
    rival: rivalOf(migration, vmi, siblings),
    activePods: own.filter((pod) => podFacts.isActive(pod) && !isTarget(pod)).length,
    running: runningBeside(migration, vmi, deps),
    isTurn: nextInLine(deps, config().migrations, base.now, migration).some(
      ({ metadata }) => metadata.uid === base.uid,
    ),
    backoffMs: backoffMs(migration, siblings, base.now),
    retry: { limit: deps.retries, newer: newerOne(migration, siblings) },
    superseded: isFinalMigration(migration) ? olderOnes(migration, siblings, own) : [],
    config: config(),
  };
}

/** A VMI that was made a moment ago is not missing. */
async function vmiOf(
  { metadata: { namespace }, spec }: VirtualMachineInstanceMigration,
  { vmis, client }: ObserveDeps,
  signal: AbortSignal,
): Promise<VirtualMachineInstance | undefined> {
  const name = spec.vmiName;
  if (!name) return undefined;
  const type = resources.virtualMachineInstances;
  return vmis.get(`${namespace}/${name}`) ?? (await getIfThere(client, type, { namespace, name }, { signal }));
}

/** With those that this process has made and the cache does not show yet. */
function podsOf({ metadata: { namespace, uid } }: VirtualMachineInstance, { ownPods }: ObserveDeps): Pod[] {
  return ownPods.list().filter((pod) => pod.metadata.namespace === namespace && podFacts.controllerUid(pod) === uid);
}

/** No migration fails on the word of a cache that does not show its pod yet. */
async function targetOf(
  migration: VirtualMachineInstanceMigration,
  vmi: VirtualMachineInstance | undefined,
  found: readonly Pod[],
  deps: Pick<ObserveDeps, 'client' | 'launchers'> & { readonly uid: string },
  signal: AbortSignal,
): Promise<Target> {
  const { client, launchers, uid } = deps;
  const [pod] = found.toSorted((a, b) => Number(podFacts.isFinal(a)) - Number(podFacts.isFinal(b)));
  if (pod) return { kind: 'pod', pod, isRecorded: vmi?.status?.activePods?.[pod.metadata.uid ?? ''] !== undefined };
  if (!vmi || !hasTargetPhase({ migration }) || migrationEnd(migration) === 'source') return { kind: 'none' };
  const { items } = await client.list<Pod>(resources.pods, {
    namespace: migration.metadata.namespace,
    labelSelector: labelQuery({ key: labels.migrationJobUid, operator: 'In', values: [uid] }),
    signal,
  });
  return { kind: launchers.sort(vmi, items).own.length > 0 ? 'unseen' : 'none' };
}

function claimsOf(vmi: VirtualMachineInstance, { claims }: ObserveDeps): ReadonlyMap<string, PersistentVolumeClaim> {
  const names = volumesOf(vmi).map((volume) => usedClaimOf(volume) ?? '');
  const found = names.flatMap((name) => {
    const claim = claims.get(`${vmi.metadata.namespace}/${name}`);
    return claim ? [[name, claim] as const] : [];
  });
  return new Map(found);
}

function keptStateOf(migration: VirtualMachineInstanceMigration, { claims }: ObserveDeps) {
  const living = (index: string, key: Key) =>
    claims.byIndex(index, key).filter(({ metadata }) => !metadata.deletionTimestamp);
  const [target] = living(claimsByMigration, keyOf(migration));
  const sources = living(claimsByVm, vmiKeyOf(migration)).filter(
    ({ metadata }) => metadata.uid !== target?.metadata.uid,
  );
  return { sources, target };
}

/** Key of the VMI that a migration moves. */
export function vmiKeyOf({ metadata: { namespace }, spec }: VirtualMachineInstanceMigration): Key {
  return `${namespace}/${spec.vmiName ?? ''}`;
}
