import { isRecord, listOf, memberAt } from '../base/index.ts';

/** A VM's templates of DataVolumes, each of the preferred storage class unless it names one itself (upstream: its webhook of VMs). */
export function appliedDataVolumes(templates: unknown, preference: object | undefined): readonly unknown[] {
  const storageClassName = memberAt(preference, 'volumes', 'preferredStorageClassName');
  if (typeof storageClassName !== 'string' || storageClassName === '') return listOf(templates);
  return listOf(templates).map((template) => {
    if (!isRecord(template) || !isRecord(template.spec)) return template;
    const spec = { ...template.spec };
    for (const member of ['pvc', 'storage']) {
      const claim = spec[member];
      if (isRecord(claim) && (claim.storageClassName ?? undefined) === undefined)
        spec[member] = { ...claim, storageClassName };
    }
    return { ...template, spec };
  });
}
