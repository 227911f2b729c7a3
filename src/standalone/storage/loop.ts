import type { ExplainFacts, KubeObject, ResourceType } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger } from '../../base/index.ts';
import { type EventRecorder, getIfThere, type KubeClient, writeIfThere } from '../../kube/index.ts';
import {
  type Decided,
  type Executors,
  factsParts,
  type ObjectEvent,
  type Observed,
  type Outcome,
  Reconciler,
  runPlan,
  type Step,
  type StepContext,
  stepErrorOf,
} from '../../reconcile/index.ts';
import type { StorageCaches } from './caches.ts';
import type { LoopDevices } from './loop-devices.ts';
import type { VolumeFiles } from './volume-files.ts';

/** What all kinds of the node's storage are done with. */
export interface StorageDeps {
  readonly client: KubeClient;
  readonly caches: StorageCaches;
  readonly files: VolumeFiles;
  readonly loops: Pick<LoopDevices, 'problem' | 'detach' | 'refresh' | 'flush'>;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
}

/** What a claim is looked at with. */
export type ClaimDeps = Pick<StorageDeps, 'caches' | 'files' | 'loops' | 'clock'>;

export interface StorageContext<Observation> extends StepContext {
  readonly observation: Observation;
  readonly deps: StorageDeps;
}

export interface StoragePlan<Args> {
  readonly steps: readonly Step<Args>[];
  readonly events?: readonly ObjectEvent[];
  readonly requeueAfterMs?: number;
}

export interface StorageDecision<Args> extends Decided, StoragePlan<Args> {
  readonly steps: readonly Step<Args>[];
}

/** One kind of object that the node's storage sees to. */
export interface StorageKind<Observation extends Observed, Args> {
  /** `claim` */
  readonly word: string;
  readonly observe: (key: string, deps: StorageDeps) => Promise<Observation>;
  readonly decide: (observation: Observation) => StorageDecision<Args>;
  readonly executors: Executors<Args, StorageContext<Observation>>;
  readonly objectOf: (observation: Observation) => KubeObject | undefined;
  readonly seenOf: (observation: Observation) => ExplainFacts;
}

export type StorageLoop<Observation extends Observed, Args> = Reconciler<
  Observation,
  StorageDecision<Args>,
  ExplainFacts
>;

/** A copy of a large disk takes its time, and holds no other up. */
const stepDeadlineMs = 6 * 3_600_000;
const options = { concurrency: 8, slotMs: 10_000, backoff: { baseMs: 100, maxMs: 60_000 }, crashLoopFailures: 15 };

/** The loop over all objects of a kind, on the caches of `deps`. What is written is written by steps. */
export function storageLoop<Observation extends Observed, Args>(
  kind: StorageKind<Observation, Args>,
  deps: StorageDeps,
): StorageLoop<Observation, Args> {
  const { word, observe, decide, executors, objectOf, seenOf } = kind;
  const onChange = `when the ${word} or what it depends on changes`;
  const runner = { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock: deps.clock };
  return new Reconciler(
    options,
    {
      ...factsParts(seenOf, { field: word, object: `the ${word}`, onChange }),
      isSynced: () => deps.caches.isSynced,
      observe: (key) => observe(key, deps),
      decide,
      execute: (observation, { steps }, signal) => runPlan(steps, { observation, deps, signal }, runner),
      write: async () => ({ kind: 'no-object' }),
      versionOf: (observation) => objectOf(observation)?.metadata.resourceVersion,
      isGone: (observation) => objectOf(observation) === undefined,
      recordEvent: (observation, { type, reason, message }) => {
        const object = objectOf(observation);
        if (object) deps.events.record(object, type, reason, message);
        return object !== undefined;
      },
    },
    deps,
  );
}

export const done: Outcome = { kind: 'done' };

/** Tried again, and said on the object. */
export function failedWith(reason: string, step: string, error: unknown): Outcome {
  const event: ObjectEvent = { type: 'Warning', reason, message: errorMessage(error) };
  return { kind: 'failed', error: stepErrorOf(error, step), events: [event] };
}

/** What was decided on has changed. */
export const changed: Outcome = { kind: 'wait', afterMs: 1_000, reason: 'it has changed; its watch will say so' };
/** Of a write: it is done, or decided anew. */
export const orChanged = (isDone: boolean): Outcome => (isDone ? done : changed);

export const has = ({ metadata }: KubeObject, finalizer: string) => metadata.finalizers?.includes(finalizer) ?? false;

/** Guarded by the version that the object was read in. */
export async function addFinalizer(
  client: StorageDeps['client'],
  type: ResourceType,
  object: KubeObject,
  finalizer: string,
): Promise<Outcome> {
  if (has(object, finalizer)) return done;
  return writeFinalizers(client, type, object, [...(object.metadata.finalizers ?? []), finalizer]);
}

/** Guarded by the version that the object was read in. */
export async function removeFinalizer(
  client: StorageDeps['client'],
  type: ResourceType,
  object: KubeObject,
  finalizer: string,
): Promise<Outcome> {
  if (!has(object, finalizer)) return done;
  const { finalizers = [] } = object.metadata;
  return writeFinalizers(
    client,
    type,
    object,
    finalizers.filter((one) => one !== finalizer),
  );
}

/** Deletes the object that was observed, and lets it go; what it stood for is gone already. */
export async function deleteWhole(
  client: StorageDeps['client'],
  type: ResourceType,
  { metadata }: KubeObject,
  finalizer: string,
  signal: AbortSignal,
): Promise<Outcome> {
  await writeIfThere(client.delete(type, metadata, { uid: metadata.uid }));
  const last = await getIfThere<KubeObject>(client, type, metadata, { signal });
  return last && last.metadata.uid === metadata.uid ? removeFinalizer(client, type, last, finalizer) : done;
}

async function writeFinalizers(
  client: StorageDeps['client'],
  type: ResourceType,
  { metadata }: KubeObject,
  finalizers: readonly string[],
): Promise<Outcome> {
  const { uid, resourceVersion } = metadata;
  const body = { metadata: { uid, resourceVersion, finalizers } };
  return orChanged(await writeIfThere(client.patch(type, metadata, body, 'merge')));
}
