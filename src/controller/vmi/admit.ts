import { finalizers, observedApiVersion, type VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { fillDefaults } from './defaults.ts';

const oldFinalizer = 'foregroundDeleteVirtualMachine';

/** The first write has been made: the VMI cannot vanish without us, and has what the rest builds on. */
export function isAdmitted(vmi: VirtualMachineInstance): boolean {
  return Boolean(vmi.status?.phase) && vmi.metadata.finalizers?.includes(finalizers.vmi) === true;
}

/**
 * What upstream's webhook does to a new VMI, where no webhook did (pkg/virt-api/webhooks/mutating-webhook/mutators/vmi-mutator.go): finalizer, defaults, first status.
 * Changes `vmi`; what is set already stays.
 */
export function admit(vmi: VirtualMachineInstance, config: ControllerConfig, randomUuid: () => string): void {
  const { metadata } = vmi;
  const kept = (metadata.finalizers ?? []).filter((name) => name !== oldFinalizer);
  metadata.finalizers = kept.includes(finalizers.vmi) ? kept : [...kept, finalizers.vmi];
  metadata.annotations = { ...metadata.annotations, ...observedApiVersion };
  fillDefaults(vmi, config, randomUuid);
  const status = vmi.status ?? {};
  vmi.status = status;
  status.runtimeUser ??= config.runtimeUser;
  const { cpu, memory } = vmi.spec.domain;
  const guest = memory?.guest;
  if (guest !== undefined) status.memory ??= { guestAtBoot: guest, guestCurrent: guest, guestRequested: guest };
  status.currentCPUTopology ??= { cores: cpu?.cores || 1, sockets: cpu?.sockets || 1, threads: cpu?.threads || 1 };
}
