import { isBeingDeleted, isFinal } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import { metadataChanges, withChanges } from '../synced-metadata.ts';
import { changed, type JsonPatchOperation } from './live-change.ts';
import type { PresentVm } from './observation.ts';

/** What a VMI takes over of its VM's template also when it runs (upstream: syncDynamicAnnotationsAndLabelsToVMI). */
export function metadataOperations({ vm, vmi, synced }: PresentVm): JsonPatchOperation[] {
  if (!vmi || isFinal(vmi) || isBeingDeleted(vmi)) return [];
  const template = isRecord(vm.spec.template) ? vm.spec.template : { metadata: {} };
  const changes = metadataChanges(synced, template.metadata, vmi.metadata);
  return (['annotations', 'labels'] as const).flatMap((field) => {
    if (Object.keys(changes[field]).length === 0) return [];
    const before = vmi.metadata[field];
    return changed(`/metadata/${field}`, before, withChanges(before, changes[field]));
  });
}
