/**
 * Owns: the programs of the node and their order: API server, controller, agent, pod runner; their rights and certificates.
 * Must not know: the commands and how they talk to people.
 */
export * from './agent-certificates.ts';
export * from './api-program.ts';
export { Capabilities } from './capabilities.ts';
export { findKvmSupport } from './kvm.ts';
export { findLeftBehind, type LeftBehind } from './left-behind.ts';
export * from './node-lock.ts';
export { maxNodes } from './node-options.ts';
export * from './program.ts';
export * from './standalone-node.ts';
export * from './user-accounts.ts';
export type { UserRights } from './user-rules.ts';
