import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { DataVolume, PersistentVolumeClaim } from '../../../../src/api/index.ts';
import { decideFill, fillRules } from '../../../../src/standalone/data-volumes/decide.ts';
import type { FillFacts } from '../../../../src/standalone/data-volumes/observe.ts';
import type { Awaited } from '../../../../src/standalone/data-volumes/ports.ts';
import { claimFor, isPopulatedFor, wishOf } from '../../../../src/standalone/data-volumes/wish.ts';

const dataVolume: DataVolume = {
  apiVersion: 'cdi.kubevirt.io/v1beta1',
  kind: 'DataVolume',
  metadata: { name: 'disk', namespace: 'default', uid: 'dv' },
  spec: { source: { blank: {} }, storage: { resources: { requests: { storage: '1Gi' } } } },
};
const uploading: DataVolume = { ...dataVolume, spec: { ...dataVolume.spec, source: { upload: {} } } };
const claim = claimFor(dataVolume, { kind: 'blank' }, undefined);
const withMarks = (marks: Record<string, string>): PersistentVolumeClaim => ({
  ...claim,
  metadata: { ...claim.metadata, annotations: { ...claim.metadata.annotations, ...marks } },
});
const place = { kind: 'bound', place: { volume: 'x', sizeBytes: 2 ** 30 } } as const;
const failed = (code: string, atMs = 0) => ({ kind: 'failed', code, message: `it is ${code}`, atMs }) as const;

function facts(more: Partial<FillFacts> = {}): FillFacts {
  const object = more.dataVolume ?? dataVolume;
  return {
    ...{
      key: 'default/disk',
      uid: 'dv',
      now: new Date(0),
      nowMs: 1_000,
      dataVolume: object,
      claim,
      wish: wishOf(object),
    },
    ...{ place, sourceBytes: undefined, fill: { kind: 'none' }, failures: 0 },
    ...more,
  };
}

const unbound = (awaits: Awaited) => ({ place: { kind: 'unbound', awaits } }) as const;
const inUse = { kind: 'source', isInUse: true, why: 'it is in use' } as const;
const named = { name: 'disk', namespace: 'default' };
const clone = { kind: 'clone', namespace: 'default', name: 'other' } as const;
const populated = { kind: 'populated' } as const;
/** A claim that a restore has made for the DataVolume. */
const restored = (owner?: string): PersistentVolumeClaim => ({
  ...claim,
  metadata: {
    ...named,
    annotations: { 'cdi.kubevirt.io/storage.populatedFor': 'disk' },
    ...(owner !== undefined && {
      ownerReferences: [
        { apiVersion: 'cdi.kubevirt.io/v1beta1', kind: 'DataVolume', name: 'disk', uid: owner, controller: true },
      ],
    }),
  },
});

/** Rule → what it decides on, its steps, and the phase that it says. */
const cases: Readonly<Record<string, readonly [Partial<FillFacts>, readonly string[], string | undefined]>> = {
  'nothing-to-fill': [{ dataVolume: undefined, wish: undefined }, ['forget'], undefined],
  deleted: [
    { dataVolume: { ...dataVolume, metadata: { ...dataVolume.metadata, deletionTimestamp: 'now' } } },
    ['forget'],
    undefined,
  ],
  'population-awaited': [
    {
      dataVolume: {
        ...dataVolume,
        metadata: { ...dataVolume.metadata, annotations: { 'cdi.kubevirt.io/storage.prePopulated': 'true' } },
      },
      claim: undefined,
    },
    [],
    'Pending',
  ],
  final: [{ dataVolume: { ...dataVolume, status: { phase: 'Failed' } } }, ['forget'], undefined],
  refused: [{ wish: { kind: 'refused', why: 'no' } }, [], 'Failed'],
  'reference-missing': [{ wish: { kind: 'reference', namespace: 'default', name: 'x' } }, [], 'Pending'],
  'snapshot-elsewhere': [{ wish: { kind: 'snapshot', namespace: 'other', name: 'x' } }, [], 'Failed'],
  'clone-elsewhere': [{ wish: { kind: 'clone', namespace: 'other', name: 'x' } }, [], 'Failed'],
  'size-unknown': [
    { dataVolume: { ...dataVolume, spec: { storage: {} } }, claim: undefined, wish: clone },
    [],
    'Pending',
  ],
  'size-missing': [
    {
      dataVolume: { ...dataVolume, spec: { storage: {} } },
      ...{ claim: undefined, wish: { kind: 'snapshot', namespace: 'default', name: 'x' } },
    },
    [],
    'Failed',
  ],
  'copy-into-named-volume': [
    {
      dataVolume: { ...dataVolume, spec: { pvc: { resources: { requests: { storage: '1Gi' } }, volumeName: 'kept' } } },
      ...{ claim: undefined, wish: clone },
    },
    [],
    'Failed',
  ],
  'claim-wanted': [{ claim: undefined }, ['createClaim'], 'Pending'],
  'populated-by-others': [{ claim: restored(), wish: populated }, ['adoptClaim'], undefined],
  'claim-of-others': [{ claim: { ...claim, metadata: { name: 'disk', namespace: 'default' } } }, [], 'Pending'],
  filled: [{ claim: withMarks({ 'cdi.kubevirt.io/storage.pod.phase': 'Succeeded' }) }, ['forget'], 'Succeeded'],
  'claim-wrong': [{ place: { kind: 'wrong', why: 'no' } }, [], 'Pending'],
  'consumer-awaited': [unbound({ kind: 'consumer' }), [], 'WaitForFirstConsumer'],
  'source-awaited': [{ wish: clone, ...unbound(inUse) }, [], 'CloneScheduled'],
  'source-refused': [{ wish: clone, ...unbound({ kind: 'refused', why: 'it is larger' }) }, [], 'Failed'],
  'copy-under-way': [{ wish: clone, ...unbound({ kind: 'nothing' }) }, [], 'CloneInProgress'],
  'claim-unbound': [unbound({ kind: 'change', why: 'no such class' }), [], 'Pending'],
  'claim-without-source': [{ wish: clone }, [], 'Failed'],
  'made-full': [{ wish: clone, claim: claimFor(dataVolume, clone, undefined) }, ['markFilled'], undefined],
  whole: [{ fill: { kind: 'filled' } }, ['markFilled'], undefined],
  'under-way': [{ fill: { kind: 'running', share: 0.5 } }, [], 'ImportInProgress'],
  'upload-awaited': [{ dataVolume: uploading, fill: failed('DISK_REFUSED') }, ['awaitUpload'], 'UploadReady'],
  failed: [{ fill: failed('DISK_REFUSED') }, [], 'Failed'],
  'backing-off': [{ fill: failed('DOWNLOAD_FAILED', 999), failures: 1 }, [], 'ImportInProgress'],
  'to-be-filled': [{ fill: failed('DOWNLOAD_FAILED', -1e6), failures: 1 }, ['startFilling'], undefined],
};

describe('DataVolumes of the node', () => {
  test('each rule has a case', () => {
    assert.deepEqual(
      Object.keys(cases),
      fillRules.map(({ name }) => name),
    );
  });

  for (const { name, why } of fillRules) {
    test(`${name}: ${why}`, () => {
      const [more = {}, steps, phase] = cases[name] ?? [];
      const decision = decideFill(facts(more));
      assert.equal(decision.rule, name);
      assert.deepEqual(
        decision.steps.map(({ step }) => step),
        steps,
      );
      assert.equal(decision.says?.phase, phase);
    });
  }

  for (const [title, more, steps, phase] of [
    ['is taken over before it has a volume', { claim: restored(), ...unbound({ kind: 'consumer' }) }, 'adoptClaim'],
    ['waits for its consumer', { claim: restored('dv'), ...unbound({ kind: 'consumer' }) }, '', 'WaitForFirstConsumer'],
    ['is made by storage', { claim: restored('dv'), ...unbound({ kind: 'nothing' }) }, '', 'CloneInProgress'],
    ['is never filled anew', { claim: restored('dv') }, 'markFilled'],
  ] as const) {
    test(`a claim that a restore made ${title}`, () => {
      const decision = decideFill(facts({ ...more, wish: populated }));
      assert.equal(decision.steps.map(({ step }) => step).join(), steps);
      assert.equal(decision.says?.phase, phase);
    });
  }

  test('a claim is populated for the DataVolume that it names, and that has it or may take it', () => {
    assert.equal(isPopulatedFor(dataVolume, restored()), true);
    assert.equal(isPopulatedFor(dataVolume, restored('dv')), true);
    assert.equal(isPopulatedFor(dataVolume, restored('of-another-one')), false);
    assert.equal(isPopulatedFor({ ...dataVolume, metadata: { name: 'other' } }, restored()), false);
    assert.equal(isPopulatedFor(dataVolume, undefined), false);
  });
});
