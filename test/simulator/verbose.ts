import { runSeed } from './run-seed.ts';

/** `node verbose.mjs SEED`: every step of one world. */
const result = await runSeed(Number(process.argv[2]), { onLine: (line) => console.log(line) });
console.log(result.story ?? `seed ${result.seed} holds, ${result.steps} steps, hash ${result.hash}`);
process.exitCode = result.violation ? 1 : 0;
