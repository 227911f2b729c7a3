/** The programs of the node and their order: API server, controller, agent, pod runner. */

export * from './agent-certificates.ts';
export * from './api-program.ts';
export { Capabilities } from './capabilities.ts';
export { judgeKvm } from './kvm.ts';
export * from './node-lock.ts';
export * from './program.ts';
export * from './standalone-node.ts';
