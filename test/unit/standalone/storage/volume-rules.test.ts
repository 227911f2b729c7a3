import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolume } from '../../../../src/api/index.ts';
import { driver } from '../../../../src/standalone/index.ts';
import { decideVolume, isBefore, type VolumeFacts, volumeRules } from '../../../../src/standalone/storage/volumes.ts';

const claimRef = { namespace: 'default', name: 'data', uid: 'u1' };
const finalizers = ['kubernetes.io/pv-protection'];

function volumeWith(spec: Partial<PersistentVolume['spec']>, phase: string, metadata: object = {}): PersistentVolume {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: 'v', uid: 'v1', finalizers, ...metadata },
    spec: { persistentVolumeReclaimPolicy: 'Delete', csi: { driver, volumeHandle: 'h' }, ...spec },
    status: { phase },
  };
}

const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' };
const kept = { claimRef, persistentVolumeReclaimPolicy: 'Retain' };
const foreign = { csi: { driver: 'other', volumeHandle: 'h' } };
const base: VolumeFacts = {
  key: 'v',
  uid: 'v1',
  now: new Date(0),
  volume: volumeWith({}, 'Available'),
  isClaimThere: false,
  twin: undefined,
  dataProblem: undefined,
  isIdleBlock: false,
};

/** Facts, the rule that decides, its steps, and the phase or reason that is written. */
const rows: readonly [Partial<VolumeFacts>, string, string, string?][] = [
  [{ volume: undefined }, 'volume-gone', ''],
  [{ volume: volumeWith({}, 'Available', deleted) }, 'volume-of-nobody-deleted', 'release'],
  [{ volume: volumeWith(foreign, 'Pending') }, 'volume-foreign', 'writeStatus', 'UnsupportedSource'],
  [{ volume: volumeWith({ claimRef, ...foreign }, 'Pending') }, 'volume-foreign', 'writeStatus', 'UnsupportedSource'],
  [{ volume: volumeWith({ claimRef }, 'Bound'), isClaimThere: true }, 'volume-claimed', ''],
  [{ volume: volumeWith({ claimRef }, 'Bound', deleted), isClaimThere: true }, 'volume-claimed', ''],
  [{ volume: volumeWith({ claimRef }, 'Released'), isClaimThere: true }, 'volume-claimed', 'writeStatus', 'Bound'],
  [{ volume: volumeWith({ claimRef }, 'Bound'), isClaimThere: true, isIdleBlock: true }, 'volume-claimed', 'detach'],
  [{ volume: volumeWith({ claimRef }, 'Bound') }, 'volume-let-go', 'writeStatus reclaim', 'Released'],
  [{ volume: volumeWith({ claimRef }, 'Released', deleted) }, 'volume-let-go', 'reclaim'],
  [{ volume: volumeWith(kept, 'Released', deleted) }, 'volume-kept-deleted', 'detach release'],
  [{ volume: volumeWith({ claimRef }, 'Bound', deleted), twin: 'w' }, 'volume-kept-deleted', 'detach release'],
  [{ volume: volumeWith(kept, 'Bound') }, 'volume-kept', 'writeStatus detach', 'Released'],
  [{ twin: 'w' }, 'volume-unusable', 'writeStatus', 'DataInUse'],
  [{ dataProblem: 'is gone' }, 'volume-unusable', 'writeStatus', 'DataMissing'],
  [{ volume: volumeWith({}, 'Pending') }, 'volume-free', 'writeStatus', 'Available'],
  [{ volume: volumeWith({}, 'Available', { finalizers: [] }) }, 'volume-free', 'protect'],
  [{}, 'volume-free', ''],
];

for (const [index, [facts, rule, steps, said]] of rows.entries()) {
  test(`${rule}, ${index}: ${steps || 'nothing is done'}${said ? `, ${said}` : ''}`, () => {
    const decision = decideVolume({ ...base, ...facts });
    const written = decision.steps.find((step) => step.step === 'writeStatus');
    assert.deepEqual(
      [decision.rule, decision.steps.map(({ step }) => step).join(' '), written?.reason ?? written?.phase],
      [rule, steps, said],
    );
  });
}

test('of two volumes with one handle that of the claim it was made for has the data, also when both are of one second', () => {
  const csi = { driver, volumeHandle: 'default_data_u1' };
  const creationTimestamp = '2026-01-01T00:00:00Z';
  const own = volumeWith({ csi }, 'Bound', { name: 'pvc-u1', uid: 'b', creationTimestamp });
  const other = volumeWith({ csi }, 'Available', { name: 'thief', uid: 'a', creationTimestamp });
  assert.deepEqual([isBefore(own, other), isBefore(other, own), isBefore(own, own)], [true, false, false]);
  const later = volumeWith({ csi }, 'Available', { name: 'v', uid: '0', creationTimestamp: '2026-01-01T00:00:01Z' });
  assert.deepEqual([isBefore(other, later), isBefore(later, other)], [true, false]);
});

test('every rule has a row', () => {
  const names = rows.map(([, rule]) => rule);
  assert.deepEqual(
    volumeRules.map(({ name }) => name).filter((name) => !names.includes(name)),
    [],
  );
});
