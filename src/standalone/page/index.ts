/**
 * Owns: the web page of the standalone node: its list from the node's API, its actions, its way to the agent.
 * Must not know: the pod runner, the supervisor and the commands.
 */
export * from './moves.ts';
export * from './node-actions.ts';
export * from './node-page.ts';
export * from './vm-feed.ts';
export * from './vm-power.ts';
