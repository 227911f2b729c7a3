import type { VirtualMachine, VmiSpec } from '../../../src/api/index.ts';
import {
  appliedTemplate,
  type InstancetypeSpec,
  type PreferenceSpec,
  readSpec,
} from '../../../src/instancetype/index.ts';
import { buildVm } from '../controller/builders.ts';

export const small = { cpu: { guest: 1 }, memory: { guest: '1Gi' } };
export const defaults = { architecture: 'amd64', defaultInterfaceBinding: 'masquerade' };

export function vmOf(spec: Partial<VmiSpec> = {}, annotations: Record<string, string> = {}): VirtualMachine {
  return buildVm({ template: { metadata: { annotations }, spec: { domain: {}, ...spec } } });
}

/** What comes out of a VM, an instance type and a preference, all as they came from outside. */
export function applied(
  vm: VirtualMachine,
  { instancetype, preference }: { instancetype?: unknown; preference?: unknown },
) {
  const found: { instancetype?: InstancetypeSpec; preference?: PreferenceSpec } = {
    ...(instancetype !== undefined && { instancetype: readSpec('instancetype', instancetype) }),
    ...(preference !== undefined && { preference: readSpec('preference', preference) }),
  };
  return appliedTemplate(vm, found, defaults);
}
