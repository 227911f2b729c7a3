import type { KubeObject } from '../api/index.ts';

/** Nothing of its configuration is to be believed: CRDs of a cluster may be permissive. */
export interface KubeVirt extends KubeObject {
  readonly spec?: { readonly configuration?: unknown; readonly workloadUpdateStrategy?: unknown };
  readonly status?: {
    readonly phase?: string;
    readonly defaultArchitecture?: string;
    readonly synchronizationAddresses?: unknown;
  };
}

/** Annotation on the KubeVirt object that keeps VGA for EFI guests. */
export const vgaForEfi = 'kubevirt.io/vga-display-efi-x86';

/** Annotations of the KubeVirt object that count. */
export const readAnnotations: readonly string[] = [vgaForEfi];

/** The object that counts: with a phase, not being deleted; of several the last one (upstream's `pkg/virt-config/configuration.go`). */
export function activeKubeVirt(candidates: readonly KubeVirt[]): KubeVirt | undefined {
  return candidates.filter(({ status, metadata }) => status?.phase && !metadata.deletionTimestamp).at(-1);
}
