import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formerStateMark, stateVolumeName } from '../../../../src/controller/kept-state/index.ts';

/** As openshift/library-go's GetName gives them, which upstream calls: pkg/build/naming/namer.go. */
const names: readonly (readonly [vm: string, name: RegExp])[] = [
  ['vm1', /^persistent-state-for-vm1$/],
  ['a'.repeat(42), /^persistent-state-for-a{42}$/],
  ['a'.repeat(43), /^persistent-e807c95a-a{43}$/],
  ['a'.repeat(53), /^-e807c95a-a{53}$/],
  ['a'.repeat(54), /^persistent-state-for-[0-9a-f]{8}$/],
];

for (const [vm, name] of names) {
  test(`the kept state of a VM whose name has ${vm.length} letters stands in snapshots as ${name}`, () => {
    assert.match(stateVolumeName(vm), name);
    assert.ok(stateVolumeName(vm).length <= 63);
    assert.match(formerStateMark(vm), /^[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$/, 'it is the value of a label, too');
  });
}
