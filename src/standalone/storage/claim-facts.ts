import { keyOf, type PersistentVolume, type PersistentVolumeClaim, type StorageClass } from '../../api/index.ts';
import type { Observed } from '../../reconcile/index.ts';
import { type ClaimSource, sourceOf } from './claim-source.ts';
import { defaultClassOf, driver, ownHandle, volumeNameOf } from './driver.ts';
import type { ClaimDeps } from './loop.ts';
import { bytesOf, wantedBytes } from './sizes.ts';

/** All that a decision about one claim rests on; plain data. */
export interface ClaimFacts extends Observed {
  readonly claim: PersistentVolumeClaim | undefined;
  /** The class that the claim names. */
  readonly storageClass: StorageClass | undefined;
  /** Name of the class that claims get which name none. */
  readonly defaultClass: string | undefined;
  /** The volume that the claim names, or that was made for it. */
  readonly volume: PersistentVolume | undefined;
  /** A free volume that has all that the claim asks for. */
  readonly candidate: PersistentVolume | undefined;
  /** Pods that have not ended. */
  readonly users: readonly string[];
  readonly source: ClaimSource;
  /** Of `volume`: what is wrong with it on disk. */
  readonly dataProblem: string | undefined;
  /** Why this machine cannot have block volumes. */
  readonly blockProblem: string | undefined;
  readonly freeBytes: number;
}

/** ext4's largest file; others have larger ones, which no disk of one machine holds. */
const largestBytes = 16 * 2 ** 40 - 2 ** 20;

export function observeClaim(key: string, deps: ClaimDeps): Promise<ClaimFacts> {
  return claimFacts(deps.caches.claims.get(key), key, deps);
}

/** Of a claim that may be newer than the cache. */
export async function claimFacts(
  claim: PersistentVolumeClaim | undefined,
  key: string,
  deps: ClaimDeps,
): Promise<ClaimFacts> {
  const { caches, files, loops, clock } = deps;
  const className = claim?.spec.storageClassName;
  const volume = claim && caches.volumes.get(claim.spec.volumeName || volumeNameOf(claim));
  const handle = ownHandle(volume);
  const isBlock = claim?.spec.volumeMode === 'Block';
  return {
    key,
    uid: claim?.metadata.uid ?? '',
    now: clock.now(),
    claim,
    storageClass: className ? caches.classes.get(className) : undefined,
    defaultClass: defaultClassOf(caches.classes.list())?.metadata.name,
    volume,
    candidate: claim && !claim.spec.volumeName ? candidateFor(claim, caches.volumes.list()) : undefined,
    users: caches.usersOf(key),
    source: claim ? await sourceOf(claim, deps) : { kind: 'none' },
    dataProblem: handle === undefined ? undefined : await files.problem(handle),
    blockProblem: isBlock ? await loops.problem() : undefined,
    freeBytes: await files.freeBytes(),
  };
}

const modeOf = ({ spec }: PersistentVolumeClaim | PersistentVolume) => spec.volumeMode ?? 'Filesystem';

/** The smallest that fits. A claim that is to begin with other data gets one of its own. */
function candidateFor(
  claim: PersistentVolumeClaim,
  volumes: readonly PersistentVolume[],
): PersistentVolume | undefined {
  if (claim.spec.dataSource ?? claim.spec.dataSourceRef) return undefined;
  const fitting = volumes.filter((volume) => {
    const isFree = volume.status?.phase === 'Available' || volume.spec.claimRef !== undefined;
    return isFree && whyNotFor(volume, claim) === undefined;
  });
  return fitting.sort((a, b) => bytesOf(a) - bytesOf(b))[0];
}

/** Why this volume cannot be the claim's; undefined: it can, or it is already. */
export function whyNotFor(volume: PersistentVolume, claim: PersistentVolumeClaim): string | undefined {
  const { metadata, spec } = volume;
  const { claimRef } = spec;
  const isOfClaim = claimRef !== undefined && `${claimRef.namespace}/${claimRef.name}` === keyOf(claim);
  if (isOfClaim && claimRef.uid === claim.metadata.uid) return undefined;
  if (metadata.deletionTimestamp) return 'is being deleted';
  if (ownHandle(volume) === undefined) return `is not of the driver ${driver}`;
  if (claimRef && (!isOfClaim || claimRef.uid)) return `is another claim's, ${claimRef.namespace}/${claimRef.name}`;
  if ((spec.storageClassName ?? '') !== (claim.spec.storageClassName ?? '')) {
    return `is of the storage class ${JSON.stringify(spec.storageClassName ?? '')}`;
  }
  if (bytesOf(volume) < wantedBytes(claim)) return `is smaller (${spec.capacity?.storage})`;
  if (modeOf(volume) !== modeOf(claim)) return `has the volume mode ${modeOf(volume)}`;
  const missing = (claim.spec.accessModes ?? []).filter((mode) => !spec.accessModes?.includes(mode));
  return missing.length > 0 ? `has no access mode ${missing.join(', ')}` : undefined;
}

/** Why no volume is made for this claim, whatever is tried; undefined: one can be. */
export function refusalOf({ claim, storageClass, source, blockProblem }: ClaimFacts): string | undefined {
  if (!claim || !storageClass) return undefined;
  const { parameters = {}, mountOptions = [], metadata } = storageClass;
  const unknown = Object.keys(parameters);
  if (unknown.length > 0) {
    return `storage class ${metadata.name}: ${driver} has no parameter ${unknown.join(', ')}: make the class without`;
  }
  if (mountOptions.length > 0)
    return `storage class ${metadata.name}: ${driver} mounts nothing: make it without mountOptions`;
  if (claim.spec.accessModes?.includes('ReadWriteOncePod')) {
    return 'access mode ReadWriteOncePod: nothing here keeps a second pod away: use ReadWriteOnce';
  }
  if (claim.spec.selector)
    return 'spec.selector: volumes that are made have no labels: leave it out, or name one in spec.volumeName';
  if (wantedBytes(claim) > largestBytes)
    return `no file can be as large as ${claim.spec.resources?.requests?.storage}: ask for less`;
  return source.kind === 'wrong' ? source.why : blockProblem;
}
