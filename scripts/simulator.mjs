// Bundles the simulator (test/simulator) and runs ranges of seeds in worker processes; used by scripts/simulate.mjs and its tests.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { bundleForRepository } from './bundle.mjs';

const chunk = 50;

/**
 * A change of the production code that the simulator has to notice.
 * @typedef {{ name: string, file: string, find: string, replace: string }} Mutation
 */

/**
 * Gives the directory with `worker.mjs` and `verbose.mjs`.
 * @param {string} outdir
 * @param {Mutation} [mutation]
 */
export async function bundleSimulator(outdir, mutation) {
  const entryPoints = ['worker', 'verbose'].map((name) => `test/simulator/${name}.ts`);
  await bundleForRepository(entryPoints, outdir, 'test/simulator', mutation ? [mutating(mutation)] : []);
  return outdir;
}

/**
 * @param {Mutation} mutation
 * @returns {import('esbuild').Plugin}
 */
function mutating({ name, file, find, replace }) {
  return {
    name,
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, ({ path: loaded }) => {
        if (path.relative(process.cwd(), loaded) !== file) return undefined;
        const parts = readFileSync(loaded, 'utf8').split(find);
        if (parts.length !== 2) throw new Error(`mutation "${name}": ${file} has ${parts.length - 1} times: ${find}`);
        return { contents: parts.join(replace), loader: 'ts' };
      });
    },
  };
}

/**
 * Runs `count` seeds from `first` on; `onResult` is called for each, false ends all.
 * @param {{ bundle: string, first: number, count: number, workers: number }} options
 * @param {(result: any) => boolean | void} onResult
 */
export async function runSeeds({ bundle, first, count, workers }, onResult) {
  const end = first + count;
  let next = first;
  const children = Array.from({ length: Math.min(workers, Math.ceil(count / chunk)) }, () =>
    fork(path.join(bundle, 'worker.mjs'), { execArgv: ['--enable-source-maps'] }),
  );
  const stop = () => {
    next = end;
    for (const child of children) child.kill();
  };
  const isCut = await Promise.all(
    children.map(async (child) => {
      let isDone = false;
      const give = () => {
        const size = Math.min(chunk, end - next);
        if (size <= 0) {
          isDone = true;
          child.disconnect();
        } else child.send({ first: next, count: size });
        next += size;
      };
      child.on('message', (message) => {
        if (message.kind === 'idle') give();
        else if (onResult(message.result) === false) {
          isDone = true;
          stop();
        }
      });
      give();
      await once(child, 'exit');
      return !isDone && !child.killed;
    }),
  );
  if (isCut.includes(true)) throw new Error('a worker of the simulator ended by itself');
}
