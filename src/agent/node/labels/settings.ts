/** What of the KubeVirt object decides about labels. */
export interface LabelSettings {
  /** Models that the cluster's administrator calls obsolete; undefined: there is no list, the built-in one counts. */
  readonly obsoleteModels: readonly string[] | undefined;
  /** Gate CrossArchitectureVirtualization. */
  readonly crossArchitecture: boolean;
}

/** As if the object said nothing. */
export const noSettings: LabelSettings = { obsoleteModels: undefined, crossArchitecture: false };

/** For `ClusterSettings.select`. */
export function labelSettings({ node }: AgentConfig): LabelSettings {
  return { obsoleteModels: node.obsoleteCpuModels, crossArchitecture: node.gates.CrossArchitectureVirtualization };
}

const builtIn = [
  ...['486', 'pentium', 'pentium2', 'pentium3', 'pentiumpro', 'coreduo', 'n270', 'core2duo', 'Conroe', 'athlon'],
  ...['phenom', 'qemu64', 'qemu32', 'kvm64', 'kvm32', 'Opteron_G1', 'Opteron_G2'],
];
const builtInObsolete: ReadonlySet<string> = new Set(builtIn.flatMap((model) => [model, `${model}-v1`]));

/** Why a model is not offered; undefined: it is. */
export function whyObsolete(model: string, { obsoleteModels }: LabelSettings): string | undefined {
  if (obsoleteModels) {
    return obsoleteModels.includes(model) ? 'obsoleteCPUModels of the KubeVirt object names it' : undefined;
  }
  return builtInObsolete.has(model) ? 'it is in the built-in list of obsolete models' : undefined;
}

import type { AgentConfig } from '../../../cluster-config/index.ts';
