/**
 * Owns: ports of a guest with QEMU's user networking: those that its VMI lists, on an address of the machine, and any that the node's API asks for.
 * Must not know: pods' networks and their devices, who asks for a port and why, the domain's document.
 */
export { GuestPortServer } from './port-server.ts';
export { publishedPorts } from './published-ports.ts';
export { UserNetwork } from './user-network.ts';
