/**
 * Owns: the VMI loop of the node agent: observe, decide, execute, project; its ports; node heartbeat; host work.
 * Must not know: how Kubernetes, gRPC or files of the domain cache work (ports.ts is all it sees of them; adapters/ fits
 * the real ones), nor argv, environment and signals.
 */

export type * from './migration-proxy/ports.ts';
export { readNodeFacts } from './node/facts/index.ts';
export { NodeAgent } from './node-agent.ts';
export { type AgentOptions, AgentOptionsError, agentUsage, parseAgentOptions } from './options.ts';
export { type DispatcherOptions, VmiDispatcher } from './vmi/loop/index.ts';
export type * from './vmi/ports.ts';
