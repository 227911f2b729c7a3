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
import type { Awaited, ClaimPlace, ClaimPlaces } from './ports.ts';
import { annotations, isPopulatedFor, referredWish, type Wish, wishOf } from './wish.ts';

export type PlaceFacts =
  | { readonly kind: 'bound'; readonly place: ClaimPlace }
  | { readonly kind: 'unbound'; readonly awaits: Awaited }
  | { readonly kind: 'wrong'; readonly why: string };

/** All that a decision about one DataVolume, or a claim that waits for an upload, rests on; plain data. */
export interface FillFacts extends Observed {
  readonly dataVolume: DataVolume | undefined;
  readonly claim: PersistentVolumeClaim | undefined;
  /** Undefined: nothing is to be filled. */
  readonly wish: Wish | undefined;
  readonly place: PlaceFacts;
  /** Of the claim that is to be copied; undefined: nothing is, or it is not there. */
  readonly sourceBytes: number | undefined;
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
  const wish = dataVolume && !isFinal(dataVolume) ? await wishWith(dataVolume, claim, deps, signal) : said;
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
    place: isOpen && claim ? await placeFacts(claim, deps.places) : { kind: 'unbound', awaits: { kind: 'nothing' } },
    sourceBytes: isOpen && wish.kind === 'clone' ? bytesOf(deps.claim(`${wish.namespace}/${wish.name}`)) : undefined,
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

function wishWith(
  dataVolume: DataVolume,
  claim: PersistentVolumeClaim | undefined,
  deps: ObserveDeps,
  signal: AbortSignal,
): Promise<Wish> | Wish {
  return isPopulatedFor(dataVolume, claim) ? { kind: 'populated' } : resolved(wishOf(dataVolume), deps, signal);
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
    return place ? { kind: 'bound', place } : { kind: 'unbound', awaits: await places.awaitedBy(claim) };
  } catch (error) {
    return { kind: 'wrong', why: errorMessage(error) };
  }
}

function bytesOf(claim: PersistentVolumeClaim | undefined): number | undefined {
  return parseQuantity(claim?.status?.capacity?.storage ?? claim?.spec.resources?.requests?.storage);
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
