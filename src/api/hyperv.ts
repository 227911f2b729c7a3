import { isRecord, listOf, memberAt } from '../base/index.ts';

/** Of Hyper-V's features each of the first needs the second (upstream: getHypervFeatureDependencies). */
export const hypervNeeds = [
  ['evmcs', 'vapic'],
  ['ipi', 'vpindex'],
  ['tlbflush', 'vpindex'],
  ['synictimer', 'synic'],
  ['synic', 'vpindex'],
] as const;

/**
 * Switches on what asked-for features need, where nothing was said of it (upstream: SetHypervFeatureDependencies). Changes the domain of a VMI's spec; doing it again changes
 * nothing.
 */
export function fillHyperv(domain: { readonly features?: unknown; cpu?: unknown }): void {
  const hyperv = memberAt(domain, 'features', 'hyperv');
  if (!isRecord(hyperv)) return;
  for (const [feature, needed] of hypervNeeds) {
    if (memberAt(hyperv, feature, 'enabled') !== true) continue;
    const state = isRecord(hyperv[needed]) ? hyperv[needed] : {};
    hyperv[needed] = { ...state, enabled: state.enabled ?? true };
  }
  const { evmcs } = hyperv;
  if (!isRecord(evmcs) || evmcs.enabled === false) return;
  const cpu = isRecord(domain.cpu) ? domain.cpu : {};
  const others = listOf(cpu.features).filter((feature) => isRecord(feature) && feature.name !== 'vmx');
  domain.cpu = { ...cpu, features: [...others, { name: 'vmx', policy: 'require' }] };
}
