import { type PersistentVolumeClaim, parseQuantity, resources } from '../../api/index.ts';

type ClaimSpec = PersistentVolumeClaim['spec'];
type Amounts = NonNullable<NonNullable<ClaimSpec['resources']>['requests']>;

/** What a claim asks for that begins with a VolumeSnapshot of another one. Pure. */
export function claimOfSnapshot(
  { accessModes, resources: amounts, storageClassName, volumeMode }: ClaimSpec,
  snapshot: { readonly name: string; readonly restoreSize: string | number | undefined },
): ClaimSpec {
  const { group: apiGroup, kind } = resources.volumeSnapshots;
  const dataSource = { apiGroup, kind, name: snapshot.name };
  return {
    ...(accessModes && { accessModes }),
    resources: { ...amounts, requests: sized(amounts?.requests, snapshot.restoreSize) },
    ...(storageClassName !== undefined && { storageClassName }),
    ...(volumeMode !== undefined && { volumeMode }),
    dataSource,
    dataSourceRef: dataSource,
  };
}

/** The claim has grown since, or storage rounds up. */
function sized(requests: Amounts = {}, restoreSize: string | number | undefined): Amounts {
  if (restoreSize === undefined) return requests;
  const has = parseQuantity(requests.storage ?? 0) ?? 0;
  return has >= (parseQuantity(restoreSize) ?? 0) ? requests : { ...requests, storage: restoreSize };
}
