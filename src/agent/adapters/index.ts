/**
 * Owns: fitting src/kube, src/domain-cache and src/launcher-client to the agent's ports.
 * Must not know: rules, steps, status.
 */

export { CaBundle } from './ca-bundle.ts';
export { readTopology } from './host-topology.ts';
export { KubeVmis, kubeVmiLookup, kubeVmiWriter } from './kube-vmis.ts';
export { launcherActions } from './launcher-actions.ts';
export { launcherPort } from './launchers.ts';
export { noRelays } from './no-relays.ts';
export { type NodeFacts, readNodeFacts } from './node-facts.ts';
export { KubeOwnNode } from './own-node.ts';
export { TlsConfig } from './tls-config.ts';
