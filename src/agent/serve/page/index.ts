/**
 * Owns: the web page as the agent serves it when it is asked to (`--web-port`): its list from the node’s VMIs, its address.
 * Must not know: how the page looks, how Kubernetes is watched, starting and stopping VMs, for which the agent has no right.
 */
export { AgentPage, type AgentPageDeps } from './agent-page.ts';
