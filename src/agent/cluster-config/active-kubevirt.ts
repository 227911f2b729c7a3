import type { KubeObject } from '../../api/index.ts';

/** Nothing of its configuration is to be believed: CRDs of a cluster may be permissive. */
export interface KubeVirt extends KubeObject {
  readonly spec?: { readonly configuration?: unknown };
  readonly status?: { readonly phase?: string };
}

/** The CR that counts: with a phase, not being deleted; of several the last one (spec 60 §7.1). */
export function activeKubeVirt(candidates: readonly KubeVirt[]): KubeVirt | undefined {
  return candidates.filter(({ status, metadata }) => status?.phase && !metadata.deletionTimestamp).at(-1);
}
