/**
 * Owns: the standalone node: pod runner (kubelet's part for launcher pods), supervisor of API server, controller and agent,
 * local images, the node's files on disk, the way to the agent's consoles, the command line's work.
 * Must not know: VMI rules, domains, libvirt, the agent's inside; argv, environment and signals (they come as arguments).
 */
export * from './agent-api/index.ts';
export * from './cli/index.ts';
export * from './errors.ts';
export * from './page/index.ts';
export * from './paths.ts';
export * from './pod-runner/index.ts';
export * from './process-identity.ts';
export * from './ssh-key.ts';
export { ensureStateDir, refuseClosedStateDir } from './state-dir.ts';
export * from './storage/index.ts';
export * from './supervisor/index.ts';
export * from './timeline/index.ts';
