/**
 * Owns: the loop over one VMI: a pass after the other, what is remembered between them, when the next one comes, the write of
 * the status with its conflicts and refusals, quarantine.
 * Must not know: which rule says what (decide), how a step is done (execute), what the status looks like (status).
 */
export { type DispatcherOptions, defaultDispatcherOptions, type LoopObserver, VmiDispatcher } from './dispatcher.ts';
