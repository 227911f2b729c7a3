/**
 * Owns: what the agents inside the guests say about themselves: read off the wire, cached for as long as they are connected.
 * Must not know: what it means for a VMI's status, how a launcher is reached.
 */
export { GuestAgentCache } from './cache.ts';
export { asksFor, readGuestInfo } from './guest-info.ts';
