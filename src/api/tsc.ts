import { memberAt } from '../base/index.ts';
import type { VirtualMachineInstance } from './vmi.ts';

/**
 * What a guest needs a known frequency of the time stamp counter for: `boot`, as it is told that its counter never changes (CPU feature invtsc); `migration`, as
 * Hyper-V's reenlightenment tells it of another machine's (upstream: pkg/virt-controller/watch/topology/tsc.go). Undefined: for nothing.
 */
export function tscNeed({ spec }: VirtualMachineInstance): 'boot' | 'migration' | undefined {
  const policies = ['require', 'force', '', undefined];
  const features = spec.domain?.cpu?.features ?? [];
  if (features.some(({ name, policy }) => name === 'invtsc' && policies.includes(policy))) return 'boot';
  const reenlightenment = memberAt(spec.domain?.features, 'hyperv', 'reenlightenment');
  const isOn = reenlightenment !== undefined && memberAt(reenlightenment, 'enabled') !== false;
  return isOn ? 'migration' : undefined;
}

/** In hertz, as virt-controller has stored it; undefined: no node of the cluster tells one. */
export function tscFrequencyOf({ status }: VirtualMachineInstance): number | undefined {
  const frequency = memberAt(status, 'topologyHints', 'tscFrequency');
  return typeof frequency === 'number' && frequency > 0 ? frequency : undefined;
}
