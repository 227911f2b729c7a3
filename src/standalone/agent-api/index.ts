/**
 * Owns: the agent's console and lifecycle interface as a client sees it: calls, streams, and a proxy for the page and the API.
 * Must not know: the web page, the pod runner, the supervisor and the commands.
 */
export * from './agent-api.ts';
export { arrivalByApi } from './arrival.ts';
export * from './explain.ts';
export * from './explain-socket.ts';
export * from './proxy.ts';
export { agentOf, forgetAgentAddress, knownAgents, rememberAgentAddress } from './target.ts';
