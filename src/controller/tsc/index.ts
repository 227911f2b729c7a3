/**
 * Owns: the frequencies of time stamp counters that nodes can give to guests: the labels by which the scheduler knows them, and the one that a new guest gets.
 * Must not know: how nodes find their own frequency, how a launcher asks QEMU for one.
 */
export { lowestFrequency } from './frequencies.ts';
export { TscLabels } from './tsc-labels.ts';
