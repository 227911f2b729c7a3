/**
 * Owns: phase 2 of the VMI's networks in the pod: what the agent handed over, DHCPv4 and DHCPv6 for the guest, network devices of a
 * running domain.
 * Must not know: how the agent made the devices, gRPC, who calls; what the domain's document looks like.
 */
export { NetworkError } from './errors.ts';
export { NicSync } from './nic-sync.ts';
export { PodNetwork, podNetwork } from './pod-network.ts';
