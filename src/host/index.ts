/**
 * Owns: probes and facts of this machine: does KVM really run guests, EFI firmware files, network devices of this
 * network namespace.
 * Must not know: KubeVirt, Kubernetes, VMIs, who asks.
 */
export { type EfiFirmware, type EfiPair, findEfiFirmware } from './efi.ts';
export { buildProbeRom, type KvmProbeOptions, type KvmProbeResult, probeKvm } from './kvm-probe.ts';
export { type NetworkLink, readNetworkLinks } from './links.ts';
