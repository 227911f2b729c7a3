/**
 * Owns: files with the memory of a guest that runs: where they may be written, one at a time, how each ended.
 * Must not know: how a claim came into the pod, the command server, the agent.
 */
export { MemoryDump } from './memory-dump.ts';
