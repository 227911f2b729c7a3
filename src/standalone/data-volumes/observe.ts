import {
  type DataVolume,
  type Key,
  type KubeObject,
  keyOf,
  type PersistentVolumeClaim,
  type Pod,
  parseQuantity,
  resources,
} from '../../api/index.ts';
import { type Clock, errorMessage } from '../../base/index.ts';
import { getIfThere, type KubeClient } from '../../kube/index.ts';
import type { Observed } from '../../reconcile/index.ts';
import type { Fillings, FillState } from './fillings.ts';
import type { ClaimPlace, ClaimPlaces } from './ports.ts';
import { annotations, referredWish, type Wish, wishOf } from './wish.ts';

export type PlaceFacts =
  | { readonly kind: 'bound'; readonly place: ClaimPlace }
  | { readonly kind: 'unbound' }
  | { readonly kind: 'wrong'; readonly why: string };

/** What is to be copied. `waits`: it may come. */
export type SourceFacts =
  | { readonly kind: 'none' }
  | { readonly kind: 'ready'; readonly place: ClaimPlace }
  | {
      readonly kind: 'waits';
      readonly reason: 'CloneSourceInUse' | 'CloneSourceNotReady';
      readonly why: string;
      readonly sizeBytes: number | undefined;
    };

/** All that a decision about one DataVolume, or a claim that waits for an upload, rests on; plain data. */
export interface FillFacts extends Observed {
  readonly dataVolume: DataVolume | undefined;
  readonly claim: PersistentVolumeClaim | undefined;
  /** Undefined: nothing is to be filled. */
  readonly wish: Wish | undefined;
  readonly place: PlaceFacts;
  readonly source: SourceFacts;
  readonly fill: FillState;
  readonly failures: number;
  readonly nowMs: number;
}

export interface ObserveDeps {
  readonly client: KubeClient;
  readonly dataVolume: (key: Key) => DataVolume | undefined;
  readonly claim: (key: Key) => PersistentVolumeClaim | undefined;
  readonly places: ClaimPlaces;
  readonly fillings: Fillings;
  readonly clock: Clock;
}

export async function observe(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<FillFacts> {
  const dataVolume = deps.dataVolume(key);
  const claim = deps.claim(key);
  const isUploadClaim = !dataVolume && claim?.metadata.annotations?.[annotations.uploadTarget] !== undefined;
  const said: Wish | undefined = isUploadClaim ? { kind: 'upload' } : undefined;
  const wish = dataVolume && !isFinal(dataVolume) ? await resolved(wishOf(dataVolume), deps, signal) : said;
  const isOpen = wish !== undefined && !isFilled(claim);
  const claimUid = claim?.metadata.uid ?? '';
  return {
    key,
    uid: dataVolume?.metadata.uid ?? claimUid,
    now: deps.clock.now(),
    nowMs: deps.clock.monotonicMs(),
    dataVolume,
    claim,
    wish,
    place: isOpen && claim ? await placeFacts(claim, deps.places) : { kind: 'unbound' },
    source: isOpen && wish.kind === 'clone' ? await sourceFacts(wish, deps, signal) : { kind: 'none' },
    fill: deps.fillings.stateOf(key, claimUid),
    failures: deps.fillings.failuresOf(claimUid),
  };
}

/** Succeeded or Failed: nothing more is done about it. */
export function isFinal({ status }: DataVolume): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

/** The mark that is set when the disk is in its place. */
export function isFilled(claim: PersistentVolumeClaim | undefined): boolean {
  return claim?.metadata.annotations?.[annotations.podPhase] === 'Succeeded';
}

async function resolved(wish: Wish, { client }: ObserveDeps, signal: AbortSignal): Promise<Wish> {
  if (wish.kind !== 'reference') return wish;
  const { namespace, name } = wish;
  const found = await getIfThere<KubeObject>(client, resources.dataSources, { namespace, name }, { signal });
  return found ? referredWish(found) : wish;
}

async function placeFacts(claim: PersistentVolumeClaim, places: ClaimPlaces): Promise<PlaceFacts> {
  try {
    const place = await places.placeOf(claim);
    return place ? { kind: 'bound', place } : { kind: 'unbound' };
  } catch (error) {
    return { kind: 'wrong', why: errorMessage(error) };
  }
}

async function sourceFacts(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { client, places, claim: cached }: ObserveDeps,
  signal: AbortSignal,
): Promise<SourceFacts> {
  const waits = (reason: 'CloneSourceInUse' | 'CloneSourceNotReady', why: string, sizeBytes?: number): SourceFacts => ({
    kind: 'waits',
    ...{ reason, why, sizeBytes },
  });
  const claim = cached(`${namespace}/${name}`);
  if (!claim) return waits('CloneSourceNotReady', `claim ${namespace}/${name}, which is to be copied, does not exist`);
  const { status, spec } = claim;
  const sizeBytes = parseQuantity(status?.capacity?.storage ?? spec.resources?.requests?.storage);
  const place = await placeFacts(claim, places);
  if (place.kind !== 'bound' || (isToBeFilled(claim) && !isFilled(claim))) {
    const why =
      place.kind === 'wrong' ? place.why : `claim ${namespace}/${name}, which is to be copied, is not filled yet`;
    return waits('CloneSourceNotReady', why, sizeBytes);
  }
  const users = await usersOf(client, claim, signal);
  if (users.length === 0) return { kind: 'ready', place: place.place };
  const why = `claim ${namespace}/${name}, which is to be copied, is used by ${users.join(', ')}: stop that first`;
  return waits('CloneSourceInUse', why, sizeBytes);
}

/** Something of CDI's kind fills it, or has done so. */
function isToBeFilled({ metadata }: PersistentVolumeClaim): boolean {
  const isOwned =
    metadata.ownerReferences?.some(({ kind, controller }) => controller && kind === 'DataVolume') === true;
  return isOwned || metadata.annotations?.[annotations.uploadTarget] !== undefined;
}

/** Pods that run with the claim; asked of the server, since something is done on it. */
export async function usersOf(
  client: KubeClient,
  claim: PersistentVolumeClaim,
  signal: AbortSignal,
): Promise<string[]> {
  const { namespace = '', name } = claim.metadata;
  const { items } = await client.list<Pod>(resources.pods, { namespace, signal });
  const has = ({ spec, status }: Pod) =>
    status?.phase === 'Running' &&
    spec.volumes?.some(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName === name) === true;
  return items.filter(has).map((pod) => `pod ${keyOf(pod)}`);
}
