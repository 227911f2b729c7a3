import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type FieldError, refusedField } from '../../../src/apiserver/errors.ts';
import { newErrors } from '../../../src/apiserver/objects/fields.ts';

const bad = (place: number, what = 'bus'): FieldError =>
  refusedField(`spec.disks[${place}].${what}`, `spec.disks[${place}] has a bad ${what}`);

describe('faults of a change are those that were not in the stored object', () => {
  const table: readonly (readonly [string, FieldError[], FieldError[], FieldError[]])[] = [
    ['one that is there still', [bad(1)], [bad(1)], []],
    ['one whose element has another place now', [bad(0)], [bad(1)], []],
    ['a second of its kind is new', [bad(0), bad(1)], [bad(1)], [bad(0)]],
    ['a second of its kind is new before and behind', [bad(0), bad(1), bad(2)], [bad(1)], [bad(0), bad(2)]],
    ['two from one is one more', [bad(0), bad(0)], [bad(0)], [bad(0)]],
    ['another kind is new', [bad(1, 'serial')], [bad(1)], [bad(1, 'serial')]],
    ['a new object has only new ones', [bad(0), bad(1)], [], [bad(0), bad(1)]],
  ];
  for (const [title, errors, before, added] of table) {
    test(title, () => assert.deepEqual(newErrors(errors, before), added));
  }
});
