/**
 * Owns: the loop over the VMIs of this node: what is remembered between two reconciles, the write of the status with its
 * refusals, what is kept of a decision for "explain", which failures are the same crash loop.
 * Must not know: which rule says what (decide), how a step is done (execute), what the status looks like (status).
 */
export { type DispatcherOptions, defaultDispatcherOptions, VmiDispatcher } from './dispatcher.ts';
export { domainText, explanationOf, type VmiRecord } from './record.ts';
