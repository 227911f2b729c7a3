import { isRecord } from '../../base/index.ts';
import { at, ensureObject, type JsonObject, objectsAt } from '../object.ts';

/** Of Hyper-V's features each of the first needs the second (upstream: getHypervFeatureDependencies). */
export const hypervNeeds = [
  ['evmcs', 'vapic'],
  ['ipi', 'vpindex'],
  ['tlbflush', 'vpindex'],
  ['synictimer', 'synic'],
  ['synic', 'vpindex'],
] as const;

/** Switches on what asked-for features need, where nothing was said of it (upstream: SetHypervFeatureDependencies). */
export function fillHyperv(domain: JsonObject): void {
  const hyperv = at(domain, 'features', 'hyperv');
  if (!isRecord(hyperv)) return;
  for (const [feature, needed] of hypervNeeds) {
    if (at(hyperv, feature, 'enabled') === true) ensureObject(hyperv, needed).enabled ??= true;
  }
  const { evmcs } = hyperv;
  if (!isRecord(evmcs) || evmcs.enabled === false) return;
  const cpu = ensureObject(domain, 'cpu');
  const others = objectsAt(cpu, 'features').filter(({ name }) => name !== 'vmx');
  cpu.features = [...others, { name: 'vmx', policy: 'require' }];
}
