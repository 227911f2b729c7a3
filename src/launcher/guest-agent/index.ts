/**
 * Owns: everything by way of the QEMU guest agent: facts asked for in turn, freezing file systems, programs in the guest, its clock.
 * What a guest answers is hostile: it is bounded and read by its shape.
 * Must not know: when the domain begins and ends, the command server, the agent's socket.
 */
export { AccessCredentials } from './access-credentials.ts';
export { GuestFreezer } from './freeze.ts';
export { GuestAccess } from './guest-access.ts';
export { GuestTimeSync } from './guest-time.ts';
export { GuestPoller } from './poller.ts';
export { type GuestFacts, GuestStore, guestAgentInfo } from './store.ts';
