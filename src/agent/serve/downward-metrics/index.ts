/**
 * Owns: figures of the host and of the VM for the guest itself (upstream: pkg/downwardmetrics, pkg/virt-handler/dmetrics-manager): the disk of
 * vhostmd that is refreshed, the channel on which a guest asks.
 * Must not know: Prometheus, clients of the agent, the VMI loop's decisions.
 */
export { makeDownwardMetrics } from './downward-metrics.ts';
