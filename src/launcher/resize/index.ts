/**
 * Owns: vCPUs and memory of a domain that runs: how many, how much, on which CPUs of the host.
 * Must not know: how a domain is started, the command server, the agent.
 */
export { GuestSize } from './guest-size.ts';
