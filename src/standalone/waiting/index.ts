/**
 * Owns: why a VM is on no node: what the API, its pod and virt-controller know of it, and what a person does about it.
 * Must not know: who asks, and how it is shown.
 */
export { readWaiting } from './read.ts';
