import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Volume } from '../../../../src/api/index.ts';
import { liveChanges } from '../../../../src/controller/vm/live-changes.ts';
import { buildVm, buildVmi } from '../builders.ts';

const onClaim = (name: string, claimName: string, hotpluggable = false): Volume => ({
  name,
  persistentVolumeClaim: { claimName, hotpluggable },
});
const image: Volume = { name: 'root', containerDisk: { image: 'x' } };

const said = (volumes: Volume[], running: Volume[], updateVolumesStrategy?: string) => {
  const vm = buildVm({
    template: { spec: { domain: {}, volumes } },
    ...(updateVolumesStrategy !== undefined && { updateVolumesStrategy }),
  });
  return liveChanges(vm, buildVmi({ volumes: running }, { phase: 'Running' }), {
    strategy: 'LiveUpdate',
    cpuAllocationRatio: 10,
  });
};

for (const [what, volumes, running] of [
  ['a claim', [onClaim('root', 'new')], [onClaim('root', 'old')]],
  ['a claim that was plugged in', [onClaim('root', 'new', true)], [onClaim('root', 'old', true)]],
  ['an image', [onClaim('root', 'new')], [image]],
  ['a claim, to a DataVolume', [{ name: 'root', dataVolume: { name: 'new' } }], [onClaim('root', 'old')]],
] as const) {
  test(`a guest that runs keeps ${what} that was to be moved, and its user is told what the next start does`, () => {
    const [change, ...more] = said([...volumes], [...running], 'Migration');
    assert.deepEqual([change?.kind, more], ['restart', []]);
    const message = change?.kind === 'restart' ? change.message : '';
    assert.match(message, /^spec\.updateVolumesStrategy Migration is not supported: .*\(root\)/);
    assert.match(message, /set the old claims again, or stop the VM and copy/);
  });
}

test('nothing is said of volumes that stay, come or go', () => {
  const root = onClaim('root', 'old');
  assert.deepEqual(said([root, onClaim('more', 'more', true)], [root, onClaim('less', 'less', true)], 'Migration'), []);
});

test('a volume that is replaced is no migration', () => {
  assert.deepEqual(said([onClaim('root', 'new')], [onClaim('root', 'old')]), []);
  assert.deepEqual(said([onClaim('root', 'new')], [onClaim('root', 'old')], 'Replacement'), []);
});

test('a strategy that nobody knows is refused in words', () => {
  const message = 'spec.updateVolumesStrategy "Copy" is unknown: use Replacement';
  assert.deepEqual(said([], [], 'Copy'), [{ kind: 'wait', reason: 'VolumesUpdateError', message }]);
});
