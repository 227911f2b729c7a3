/**
 * Owns: the hook sidecars of the pod: finding their sockets, what each can do, calling them in order.
 * Must not know: what they change in a domain, libvirt, when a domain is made.
 */
export { HookSidecars } from './hook-sidecars.ts';
