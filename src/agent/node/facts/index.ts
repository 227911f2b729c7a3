/**
 * Owns: what this machine is (CPUs, NUMA topology, the host's CPU model, SELinux), read from its files.
 * Must not know: VMIs, Kubernetes, who asks.
 */
export { readTopology } from './host-topology.ts';
export { type NodeFacts, readNodeFacts } from './node-facts.ts';
