/**
 * Owns: what virt-controller explains about its decisions, and at which addresses.
 * Must not know: how a decision is made; it asks nothing but memory.
 */
export { type ExplainedController, errorAnswer, explain } from './service.ts';
