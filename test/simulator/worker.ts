import { runSeed } from './run-seed.ts';

/** Runs seeds that its parent names, one range after the other, and sends each result as soon as it is there. */
process.on('message', ({ first, count }: { first: number; count: number }) => {
  void (async () => {
    for (let seed = first; seed < first + count; seed++) process.send?.({ kind: 'seed', result: await runSeed(seed) });
    process.send?.({ kind: 'idle' });
  })();
});
