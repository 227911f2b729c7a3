import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseGoDurationMs } from '../../../src/base/index.ts';

test('durations are read as Go reads them', () => {
  const cases: Record<string, number | undefined> = {
    '90s': 90_000,
    '5m0s': 300_000,
    '1h2m': 3_720_000,
    '1.5h': 5_400_000,
    '.5s': 500,
    '1.s': 1_000,
    '250ms': 250,
    '2us': 0.002,
    '2µs': 0.002,
    '1000000ns': 1,
    '0': 0,
    '-0': 0,
    '+3m': 180_000,
    '-10s': -10_000,
    '2562047h': 9_223_369_200_000,
  };
  for (const [text, expected] of Object.entries(cases))
    assert.equal((parseGoDurationMs(text) ?? Number.NaN) + 0, expected, text);
});

test('what is no duration has no value', () => {
  const cases = [
    '',
    ' ',
    '5',
    '5 s',
    '5s ',
    's',
    '.s',
    '1d',
    '--5s',
    '-',
    '5m-3s',
    '0x5s',
    '1e3s',
    '５s',
    `${'1'.repeat(200)}s`,
    // More than Go can count.
    '2562048h',
    '-2562048h',
    '2562047h60m',
    `${'9'.repeat(120)}h`,
  ];
  for (const text of cases) assert.equal(parseGoDurationMs(text), undefined, text);
});
