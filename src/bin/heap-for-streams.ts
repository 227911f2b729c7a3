import { setFlagsFromString } from 'node:v8';

/**
 * When the old generation of the heap is collected: when it has grown by half, or, while streams of guests are open, to three
 * times its size. Their bytes pass through buffers of 64 KiB, which V8 counts as growth: 12 MB of a guest's output would be
 * enough for a collection of the whole heap, which is more work than the stream. Such buffers die young: the small collections,
 * one for each 30 MB or so, are enough as long as the large ones are not due before.
 */
export function heapForStreams(areOpen: boolean): void {
  setFlagsFromString(`--heap-growing-percent=${areOpen ? 200 : 50}`);
}
