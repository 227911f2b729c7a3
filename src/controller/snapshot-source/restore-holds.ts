import type { KubeObject } from '../../api/index.ts';

const prefix = 'snapshot.kubevirt.io/restore-';

/** A finalizer of the restore's own on the content that it needs, from before the first claim is deleted until all is restored. */
export function holdOf({ metadata }: KubeObject): string {
  return `${prefix}${metadata.uid}`;
}

/** Those on a content whose restore is none of these: it was taken away without its own finalizer, and lets go no more. */
export function lostHolds({ metadata }: KubeObject, restores: readonly KubeObject[]): string[] {
  const known = new Set(restores.map(holdOf));
  return (metadata.finalizers ?? []).filter((each) => each.startsWith(prefix) && !known.has(each));
}
