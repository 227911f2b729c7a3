/**
 * Owns: how a VM came to run, from its order to its login prompt, of times that something wrote down anyway.
 * Must not know: who asks, and how it is shown.
 */
export { readTimeline } from './read.ts';
