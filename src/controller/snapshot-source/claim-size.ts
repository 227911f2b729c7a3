import { type PersistentVolumeClaim, parseQuantity } from '../../api/index.ts';

type Amounts = NonNullable<NonNullable<PersistentVolumeClaim['spec']['resources']>['requests']>;

/** What a claim that begins with a VolumeSnapshot asks for: its source had grown since, or storage rounds up. */
export function sizedForSnapshot(requests: Amounts = {}, restoreSize: string | number | undefined): Amounts {
  if (restoreSize === undefined) return requests;
  const has = parseQuantity(requests.storage ?? 0) ?? 0;
  return has >= (parseQuantity(restoreSize) ?? 0) ? requests : { ...requests, storage: restoreSize };
}
