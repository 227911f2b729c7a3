import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationText } from '../../../src/web/index.ts';

test('durations have the unit that people would choose', () => {
  const said = [0, 5, 999, 1_000, 119_000, 120_000, 7_199_000, 7_200_000, 172_799_000, 172_800_000].map(durationText);
  assert.deepEqual(said, ['<1 ms', '5 ms', '999 ms', '1 s', '119 s', '2 min', '119 min', '2 h', '47 h', '2 d']);
});
