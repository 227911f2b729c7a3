import {
  apiVersionOf,
  controllerOf,
  finalizers,
  type KubeObject,
  keyOf,
  labels,
  resources,
  type VirtualMachineSnapshotContent,
  type VolumeSnapshot,
} from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { createOrFind, type KubeClient } from '../../kube/index.ts';
import type { Executors, ObjectEvent, Outcome, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import { controllerReference } from '../owned/index.ts';
import { freeze, labelValue, lostHolds, type SnapshotClasses, setFinalizer, thaw } from '../snapshot-source/index.ts';
import type { ContentStepArgs } from './decide.ts';
import type { BackupFacts, PresentContent } from './observe.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'list' | 'patch' | 'raw'>;
  readonly contents: ReadYourWrites<VirtualMachineSnapshotContent>;
  readonly volumeSnapshots: ReadYourWrites<VolumeSnapshot>;
  readonly classes: Pick<SnapshotClasses, 'of'>;
  readonly observation: PresentContent;
}

const done: Outcome = { kind: 'done' };
const type = resources.volumeSnapshots;
const overtaken: Outcome = { kind: 'wait', afterMs: 1_000, reason: 'the content has changed meanwhile' };

export const executors: Executors<ContentStepArgs, ExecuteContext> = {
  freezeGuest: async ({ thawAfterMs }, { client, observation, signal }) => {
    const { source } = observation;
    if (source) await freeze(source.vm.metadata, thawAfterMs, client, signal);
    return done;
  },
  thawGuest: async (_step, { client, observation, signal }) => {
    const { source } = observation;
    if (source) await thaw(source.vm.metadata, client, signal);
    return done;
  },
  createVolumeSnapshots,
  release: async (_step, { client, contents, observation, signal }) => {
    const { content } = observation;
    const wish = { name: finalizers.vmSnapshotContent, isWanted: false };
    const contentType = resources.virtualMachineSnapshotContents;
    return (await setFinalizer(contentType, content, wish, { client, objects: contents }, signal)) ? done : overtaken;
  },
  dropHolds,
};

/** By the API server's own word: a restore that was just made is needed. */
async function dropHolds(
  { holds }: Step<ContentStepArgs, 'dropHolds'>,
  { client, contents, observation, signal }: ExecuteContext,
): Promise<Outcome> {
  const { content } = observation;
  const { namespace } = content.metadata;
  const { items } = await client.list<KubeObject>(resources.virtualMachineRestores, { namespace, signal });
  const lost = lostHolds(content, items).filter((each) => holds.includes(each));
  const objects = contents;
  for (const name of lost) {
    const newest = contents.get(observation.key) ?? content;
    const contentType = resources.virtualMachineSnapshotContents;
    if (!(await setFinalizer(contentType, newest, { name, isWanted: false }, { client, objects }, signal)))
      return overtaken;
  }
  return lost.length > 0 ? done : overtaken;
}

/** All of them, whatever becomes of one: a guest that stands still waits for the last. */
async function createVolumeSnapshots(
  { backups }: Step<ContentStepArgs, 'createVolumeSnapshots'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const events: ObjectEvent[] = [];
  const failures: string[] = [];
  await Promise.all(
    backups.map(async (backup) => {
      try {
        if (!(await createVolumeSnapshot(backup, context))) return;
        const message = `Successfully created VolumeSnapshot ${backup.volumeSnapshotName}`;
        events.push({ type: 'Normal', reason: 'SuccessfulVolumeSnapshotCreate', message });
      } catch (error) {
        if (context.signal.aborted) throw error;
        failures.push(`VolumeSnapshot ${backup.volumeSnapshotName}: ${errorMessage(error)}`);
      }
    }),
  );
  if (failures.length === 0) return { kind: 'done', events };
  const error = { severity: 'retry', code: 'CREATE_FAILED', message: failures.sort().join('; ') } as const;
  return { kind: 'failed', error, events };
}

/** False: it was there already. */
async function createVolumeSnapshot(
  { volumeSnapshotName: name, persistentVolumeClaim: claim }: BackupFacts['backup'],
  { client, volumeSnapshots, classes, observation: { content }, signal }: ExecuteContext,
): Promise<boolean> {
  const { namespace = '' } = content.metadata;
  const found = await classes.of(claim.spec.storageClassName ?? '', signal);
  if (found.kind !== 'snapshot')
    throw new Error(found.why || `no VolumeSnapshotClass for storage class ${claim.spec.storageClassName}`);
  const vm = content.spec.source.virtualMachine?.metadata;
  const wanted: VolumeSnapshot = {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    metadata: {
      name,
      namespace,
      labels: {
        [labels.snapshotSourceName]: labelValue(vm?.name),
        [labels.snapshotSourceNamespace]: labelValue(vm?.namespace),
      },
      ownerReferences: [controllerReference(resources.virtualMachineSnapshotContents, content)],
    },
    spec: {
      source: { persistentVolumeClaimName: claim.metadata?.name ?? '' },
      volumeSnapshotClassName: found.snapshotClass,
    },
  };
  const isOwn = (existing: VolumeSnapshot) => controllerOf(existing)?.uid === content.metadata.uid;
  const { object, isNew } = await createOrFind(client, type, wanted, isOwn, { signal });
  volumeSnapshots.created(keyOf(object), object);
  return isNew;
}
