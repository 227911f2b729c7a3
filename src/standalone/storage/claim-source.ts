import { binaryQuantity, type PersistentVolumeClaim } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { boundHandle, volumeNameOf } from './driver.ts';
import { heldProblem } from './in-use.ts';
import type { ClaimDeps } from './loop.ts';
import { wantedBytes } from './sizes.ts';
import type { CopySource } from './volume-files.ts';

/** What a claim begins with. `waits`: it may come; `wrong`: it never will. */
export type ClaimSource =
  | { readonly kind: 'none' }
  /** `of`: the claim whose disk it is. */
  | { readonly kind: 'ready'; readonly from: CopySource; readonly of?: PersistentVolumeClaim }
  /** `isInUse`: pods have it. */
  | { readonly kind: 'waits'; readonly why: string; readonly isInUse?: boolean }
  | { readonly kind: 'wrong'; readonly why: string };

const snapshotGroup = 'snapshot.storage.k8s.io';

export async function sourceOf(claim: PersistentVolumeClaim, deps: ClaimDeps): Promise<ClaimSource> {
  const { dataSource, dataSourceRef, volumeName } = claim.spec;
  const source = dataSource ?? dataSourceRef;
  if (!source) return { kind: 'none' };
  const { kind, name } = source;
  if (volumeName) return namesOther(claim) ? wrong(besidesVolume(kind, name)) : { kind: 'none' };
  const group = source.apiGroup ?? '';
  if (dataSourceRef?.namespace)
    return wrong(`spec.dataSourceRef.namespace: ${kind} ${name} has to be in the claim's namespace`);
  if (group === '' && kind === 'PersistentVolumeClaim') return sized(claim, await ofClaim(claim, name, deps), deps);
  if (group === snapshotGroup && kind === 'VolumeSnapshot')
    return sized(claim, await ofSnapshot(claim, name, deps), deps);
  return wrong(
    `spec.dataSource: nothing here fills a claim from a ${kind}: use a VolumeSnapshot or a PersistentVolumeClaim`,
  );
}

/** A volume that was not made for it, without being bound to it: one that is made is named before the status says so. */
function namesOther(claim: PersistentVolumeClaim): boolean {
  const wasBound = claim.status?.phase === 'Bound' || claim.status?.phase === 'Lost';
  return !wasBound && claim.spec.volumeName !== volumeNameOf(claim);
}

const besidesVolume = (kind: string, name: string) =>
  `spec.volumeName: a copy of ${kind} ${name} gets a volume of its own, and none that exists is overwritten: leave spec.volumeName or spec.dataSource out`;

const wrong = (why: string): ClaimSource => ({ kind: 'wrong', why });
const waits = (why: string): ClaimSource => ({ kind: 'waits', why });

async function ofClaim({ metadata }: PersistentVolumeClaim, name: string, deps: ClaimDeps): Promise<ClaimSource> {
  if (name === metadata.name) return wrong('spec.dataSource: a claim cannot be a copy of itself');
  const found = deps.caches.claims.get(`${metadata.namespace}/${name}`);
  if (!found) return waits(`claim ${name}, which is to be copied, does not exist`);
  if (found.status?.phase !== 'Bound') return waits(`claim ${name}, which is to be copied, is ${found.status?.phase}`);
  const bound = boundHandle(found, deps.caches.volumes.get(found.spec.volumeName ?? ''));
  if ('problem' in bound) return waits(`claim ${name}, which is to be copied, ${bound.problem}`);
  const held = await heldProblem(found, 'claim', deps);
  if (held) return { kind: 'waits', why: held.why, isInUse: held.isInUse };
  return { kind: 'ready', from: { volume: bound.handle }, of: found };
}

async function ofSnapshot(
  { metadata }: PersistentVolumeClaim,
  name: string,
  { caches }: ClaimDeps,
): Promise<ClaimSource> {
  const found = caches.snapshots.get(`${metadata.namespace}/${name}`);
  if (!found) return waits(`snapshot ${name} does not exist`);
  if (found.metadata.deletionTimestamp) return wrong(`snapshot ${name} is being deleted`);
  const content = caches.contents.get(found.status?.boundVolumeSnapshotContentName ?? '');
  const handle = content?.status?.snapshotHandle;
  if (!found.status?.readyToUse || !handle) {
    return waits(
      `snapshot ${name} is not ready${found.status?.error?.message ? `: ${found.status.error.message}` : ''}`,
    );
  }
  return { kind: 'ready', from: { snapshot: handle } };
}

async function sized(claim: PersistentVolumeClaim, source: ClaimSource, { files }: ClaimDeps): Promise<ClaimSource> {
  if (source.kind !== 'ready') return source;
  try {
    const size = await files.sizeOf(source.from);
    if (size <= wantedBytes(claim)) return source;
    return wrong(
      `spec.resources.requests.storage: what is copied has ${binaryQuantity(size)}: ask for as much, or more`,
    );
  } catch (error) {
    return waits(errorMessage(error));
  }
}
