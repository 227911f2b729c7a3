import type { AgentConfig } from '../../../cluster-config/index.ts';
import { type HostDevices, readHostDevices } from './host-devices.ts';

/** What the device plugins take from the configuration. Plain data. */
export interface DeviceSettings {
  /** VMs run without the hypervisor's device and without vhost-net: their absence is no problem. */
  readonly useEmulation: boolean;
  readonly hypervisorDevice: 'kvm' | 'mshv';
  readonly sev: boolean;
  readonly vsock: boolean;
  readonly persistentReservation: boolean;
  /** Undefined: not wanted. */
  readonly tdx: { readonly enforced: boolean; readonly qgsSocketPath: string } | undefined;
  readonly hostDevices: HostDevices;
  /** What is configured and will not be done, in words. */
  readonly refusals: readonly string[];
}

export function deviceSettings({ useEmulation, node }: AgentConfig): DeviceSettings {
  const { gates, hypervisor, persistentReservation, tdxAttestation, permittedHostDevices } = node;
  const { devices, problems } = readHostDevices(permittedHostDevices);
  return {
    useEmulation,
    hypervisorDevice: hypervisor === 'hyperv-direct' ? 'mshv' : 'kvm',
    sev: gates.WorkloadEncryptionSEV,
    vsock: gates.VSOCK,
    persistentReservation,
    tdx: gates.WorkloadEncryptionTDX ? tdxAttestation : undefined,
    hostDevices: devices,
    refusals: [...problems, ...notBuilt(node)],
  };
}

function notBuilt({ gates }: AgentConfig['node']): string[] {
  if (!gates.IOMMUFD) return [];
  return ['gate IOMMUFD: this agent does not offer devices.kubevirt.io/iommufd; switch the gate off'];
}
