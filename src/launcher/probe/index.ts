/**
 * Owns: `virt-probe`, the program by which a kubelet asks a guest how it is: its flags and its questions to the launcher of the same pod
 * (upstream: cmd/virt-probe).
 * Must not know: the launcher's inside; it meets it at its socket only.
 */
export { parseProbeFlags, probeUsage } from './flags.ts';
export { askGuest } from './probe.ts';
