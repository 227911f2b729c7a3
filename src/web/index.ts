/**
 * Owns: the web page with a node's virtual machines (list, serial console, screen, decisions) and the server that only its
 * token, its own origin and its own host name reach.
 * Must not know: where VMs come from, who serves their console; both are ports.
 */
export type { VmActions, VmApi, VmFeed, VmRow, WebBackend } from './ports.ts';
