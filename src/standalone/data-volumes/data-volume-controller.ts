import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import {
  type DataVolume,
  type ExplainFacts,
  type Key,
  keyOf,
  type PersistentVolumeClaim,
  resources,
} from '../../api/index.ts';
import type { Clock, Component, Logger } from '../../base/index.ts';
import { type EventRecorder, Informer, type KubeClient, writeIfThere } from '../../kube/index.ts';
import {
  type Attempt,
  factsParts,
  type ReconcileParts,
  Reconciler,
  runPlan,
  stepErrorOf,
  type WriteReport,
  type Written,
} from '../../reconcile/index.ts';
import { decideFill, type FillDecision } from './decide.ts';
import { executors } from './execute.ts';
import { Filler } from './filler.ts';
import { Fillings } from './fillings.ts';
import { type FillFacts, isFilled, isFinal, observe } from './observe.ts';
import type { ClaimPlace, ClaimPlaces } from './ports.ts';
import { phaseEvents, projectStatus, statusDiffers } from './project.ts';
import { annotations, doingOf, wishOf } from './wish.ts';

export interface DataVolumeControllerDeps {
  readonly client: KubeClient;
  readonly places: ClaimPlaces;
  readonly images: { resolve(reference: string): Promise<string> };
  readonly events: Pick<EventRecorder, 'record'>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** A claim that an upload may come for now. */
export interface AwaitedUpload {
  readonly key: Key;
  readonly claim: PersistentVolumeClaim;
  readonly place: ClaimPlace;
}

type Parts = ReconcileParts<FillFacts, FillDecision, ExplainFacts>;

const stepDeadlineMs = 60_000;
const options = { concurrency: 4, backoff: { baseMs: 100, maxMs: 30_000 }, crashLoopFailures: 15 };
const backoff = { baseMs: 100, maxMs: 2_000 };

/**
 * What a cluster has the containerized data importer for: DataVolumes get a claim, and claims are filled, from addresses, uploads, images of
 * the node and other claims. What is half done is never seen, and begun anew after a restart.
 */
export class DataVolumeController implements Component {
  readonly name = 'data volumes of the node';
  readonly #deps: DataVolumeControllerDeps;
  readonly #dataVolumes: Informer<DataVolume>;
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #fillings: Fillings;
  readonly #filler: Filler;
  readonly #reconciler: Reconciler<FillFacts, FillDecision, ExplainFacts>;

  constructor(deps: DataVolumeControllerDeps) {
    this.#deps = deps;
    this.#dataVolumes = new Informer<DataVolume>({ type: resources.dataVolumes, backoff }, deps);
    this.#claims = new Informer<PersistentVolumeClaim>({ type: resources.persistentVolumeClaims, backoff }, deps);
    this.#fillings = new Fillings(deps);
    this.#filler = new Filler({ ...deps, fillings: this.#fillings, wake: (key) => this.#reconciler.wake(key) });
    this.#reconciler = new Reconciler(options, this.#parts(), deps);
  }

  get filler(): Filler {
    return this.#filler;
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#sweep();
    const heard = <T>(hear: (object: T) => void) => ({
      added: hear,
      updated: (_: T, newer: T) => hear(newer),
      deleted: hear,
    });
    this.#dataVolumes.addHandlers(heard((object) => this.#reconciler.wake(keyOf(object))));
    this.#claims.addHandlers(heard((claim) => this.#onClaim(claim)));
    await Promise.all([this.#dataVolumes.start(), this.#claims.start()]);
    await Promise.all([this.#dataVolumes.waitForSync(signal), this.#claims.waitForSync(signal)]);
  }

  async stop(): Promise<void> {
    await Promise.all([this.#dataVolumes.stop(), this.#claims.stop()]);
    await this.#reconciler.stop();
    await this.#fillings.stop();
  }

  /** Undefined: no upload is awaited for it now. */
  async awaitedUpload(namespace: string, name: string): Promise<AwaitedUpload | undefined> {
    const key = `${namespace}/${name}`;
    const claim = this.#claims.get(key);
    if (!claim || isFilled(claim) || claim.metadata.deletionTimestamp) return undefined;
    if (claim.metadata.annotations?.[annotations.podReady] !== 'true') return undefined;
    const { kind } = this.#fillings.stateOf(key, claim.metadata.uid ?? '');
    if (kind !== 'none' && kind !== 'failed') return undefined;
    const place = await this.#deps.places.placeOf(claim);
    return place && { key, claim, place };
  }

  /** Also what is to be a copy of it waits for it. */
  #onClaim(claim: PersistentVolumeClaim): void {
    this.#reconciler.wake(keyOf(claim));
    const copies = this.#dataVolumes.list().filter((one) => !isFinal(one) && isCopyOf(one, claim));
    for (const copy of copies) this.#reconciler.wake(keyOf(copy));
  }

  /** What an earlier process has begun. */
  async #sweep(): Promise<void> {
    const { workRoot } = this.#deps.places;
    await mkdir(workRoot, { recursive: true, mode: 0o700 });
    for (const name of await readdir(workRoot)) {
      if (Filler.isWorkDirectory(name)) await rm(path.join(workRoot, name), { recursive: true, force: true });
    }
  }

  #parts(): Parts {
    const observing = {
      ...this.#deps,
      fillings: this.#fillings,
      dataVolume: (key: Key) => this.#dataVolumes.get(key),
      claim: (key: Key) => this.#claims.get(key),
    };
    const words = {
      field: 'dataVolume',
      object: 'the DataVolume',
      onChange: 'when the DataVolume or its claim changes',
    };
    return {
      ...factsParts(seenOf, words),
      isSynced: () => this.#dataVolumes.hasSynced && this.#claims.hasSynced,
      observe: (key, signal) => observe(key, observing, signal),
      decide: decideFill,
      execute: (observation, { steps }, signal) => {
        const context = { observation, filler: this.#filler, signal };
        const { clock } = this.#deps;
        return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
      },
      write: (attempt, report) => this.#write(attempt, report),
      versionOf: ({ dataVolume, claim }) => (dataVolume ?? claim)?.metadata.resourceVersion,
      isGone: ({ dataVolume, claim }) => !dataVolume && !claim,
      recordEvent: ({ dataVolume, claim }, { type, reason, message }) => {
        const object = dataVolume ?? claim;
        if (object) this.#deps.events.record(object, type, reason, message);
        return object !== undefined;
      },
      crashLoop: {
        wishOf: ({ wish }) => JSON.stringify(wish ?? ''),
        stateOf: ({ fill }) => fill.kind,
        isOvertaken: () => false,
        event: () => undefined,
      },
    };
  }

  async #write(
    { observation, decision: { says } }: Attempt<FillFacts, FillDecision>,
    report: WriteReport,
  ): Promise<Written> {
    const { dataVolume, wish, failures, now } = observation;
    if (!dataVolume || !says) return { kind: 'no-object' };
    const status = projectStatus(dataVolume, says, failures, now);
    if (!statusDiffers(dataVolume, status)) return { kind: 'unchanged' };
    const { metadata } = dataVolume;
    const body = { metadata: { uid: metadata.uid }, status };
    const type = resources.dataVolumes;
    const isWritten = await writeIfThere(
      this.#deps.client.patch(type, metadata, body, 'merge', { subresource: 'status' }),
    );
    if (!isWritten) return { kind: 'gone' };
    report(phaseEvents(dataVolume, doingOf(wish ?? wishOf(dataVolume)), says));
    return { kind: 'written' };
  }
}

function isCopyOf(dataVolume: DataVolume, { metadata }: PersistentVolumeClaim): boolean {
  const wish = wishOf(dataVolume);
  return wish.kind === 'clone' && wish.namespace === metadata.namespace && wish.name === metadata.name;
}

/** In few words for people; keys are names of log fields, too. */
function seenOf({ dataVolume, claim, wish, fill, place }: FillFacts): ExplainFacts {
  return {
    phase: dataVolume?.status?.phase ?? '',
    claim: claim?.status?.phase ?? 'none',
    place: place.kind,
    source: wish?.kind ?? 'none',
    fill: fill.kind,
  };
}
