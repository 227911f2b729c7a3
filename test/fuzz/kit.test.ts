import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { declareTarget, fuzzInChild, type Target } from './kit/index.ts';

const numbers = fc.nat({ max: 1_000_000 });
const parity: Target<number>['parse'] = (value) => (value % 2 === 0 ? 'accepted' : 'refused');

/** Each has one fault; its name is what the suite must say of it. */
const faulty: Readonly<Record<string, Target<number>>> = {
  'RangeError: above 1000': {
    input: numbers,
    parse: (value) => {
      if (value > 1_000) throw new RangeError('above 1000');
      return parity(value);
    },
  },
  'it hangs': {
    input: numbers,
    parse: (value) => {
      while (value % 500 === 499);
      return parity(value);
    },
  },
  'the process ended with SIGABRT': {
    input: numbers,
    parse: (value) => {
      if (value % 100 === 99) process.abort();
      return parity(value);
    },
  },
  'MiB more memory is in use': { input: numbers, parse: (value) => parity(kept.push(Buffer.alloc(4096, 1)) + value) },
  'which is less than 2 %': {
    input: numbers,
    parse: (value) => (value > 123_456 && value < 124_456 ? 'accepted' : 'refused'),
  },
  'not a single input was refused': { input: numbers, parse: () => 'accepted' },
  'squares: 262144 bytes take': {
    input: numbers,
    parse: (value) => {
      for (let turns = value > 10_000 ? value ** 2 / 300 : 0, at = 0; at < turns; at++) kept[0] = undefined;
      return parity(value);
    },
    growing: { squares: (bytes) => bytes },
    growingTo: 2 ** 18,
  },
};
const kept: unknown[] = [];

const sound: Target<number> = { input: numbers, parse: parity, growing: { itself: (bytes) => bytes } };
declareTarget('sound', sound);
for (const [name, target] of Object.entries(faulty)) declareTarget(name, target);

const short = { seconds: 0.5, killMs: 1_500 };

if (process.env.FUZZ_CHILD === undefined) {
  for (const name of Object.keys(faulty)) {
    test(`a parser with a fault is told of: ${name}`, async () => {
      const { problem } = await fuzzInChild(name, short);
      assert.ok(problem?.includes(name), problem ?? 'nothing was found');
    });
  }

  test('a parser without a fault passes, and what was done is told', async () => {
    const { line, problem } = await fuzzInChild('sound', short);
    assert.equal(problem, undefined);
    assert.match(line, /^[1-9]\d* runs, \d+\/s, \d\d % accepted, .* growing 1$/);
  });

  test('the failing input is made smaller, and told with the seed and path that make it again', async () => {
    const { problem = '' } = await fuzzInChild('RangeError: above 1000', short);
    assert.match(problem, /\ninput: 1001\n/);
    assert.match(problem, /FUZZ_TARGET="RangeError: above 1000" FUZZ_SEED=\d+ FUZZ_PATH=[\d:]+ node/);
  });

  test('the input at which a process ended is told, too', async () => {
    const { problem = '' } = await fuzzInChild('the process ended with SIGABRT', short);
    const [, input = ''] = /\ninput: (\d+)\n/.exec(problem) ?? [];
    assert.equal(Number(input) % 100, 99, problem);
  });
}
