/**
 * Owns: the queue with one serial actor per key, its worker slots, delays and back-off.
 * Must not know: what is reconciled, Kubernetes clients, domains, nodes.
 */
export * from './keyed-queue.ts';
