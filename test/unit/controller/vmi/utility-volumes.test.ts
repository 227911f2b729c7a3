import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readyClaims, usedClaimOf, volumesOf } from '../../../../src/controller/pod/index.ts';
import { vmiProblem } from '../../../../src/controller/vmi/check.ts';
import { vmiIndexes, vmisByClaim } from '../../../../src/controller/vmi/observe.ts';
import { volumeStatus } from '../../../../src/controller/vmi/volume-status.ts';
import { buildRunningPod, buildVmi } from '../builders.ts';
import { attached, claim, claims, pluggedSpec } from './plugged.ts';

const vmi = buildVmi(
  { ...pluggedSpec('data'), utilityVolumes: [{ name: 'dump', claimName: 'dump' }] },
  { phase: 'Running' },
);
const pod = buildRunningPod();

test('a volume that the launcher writes to comes by the attachment pod, beside those of the guest', () => {
  const facts = { vmi, pod, attachments: [], claims: claims('data', 'dump') };
  assert.deepEqual(
    readyClaims(facts).map(({ volume, claim: name }) => [volume, name]),
    [
      ['data', 'data'],
      ['dump', 'dump'],
    ],
  );
  const now = attached('now', 'Running', 'data', 'dump');
  const [, dump] = volumeStatus({ ...facts, attachments: [now] });
  assert.deepEqual([dump?.name, dump?.phase, dump?.hotplugVolume?.attachPodUID], ['dump', 'AttachedToNode', 'uid-now']);
  assert.deepEqual(vmiIndexes[vmisByClaim](vmi), ['default/data', 'default/dump']);
});

test('a block device cannot be written files to: it is not attached, and its entry says why', () => {
  const block = claim('dump', { spec: { volumeMode: 'Block' } });
  const facts = { vmi, pod, attachments: [], claims: new Map([['dump', block]]) };
  assert.deepEqual(
    readyClaims(facts).map(({ volume }) => volume),
    [],
  );
  const dump = volumeStatus(facts).find(({ name }) => name === 'dump');
  const message = 'Utility volume PVC dump must be filesystem mode, not block mode';
  assert.deepEqual([dump?.phase, dump?.reason, dump?.message], ['Pending', 'PVCNotReady', message]);
});

test('a volume of the guest is no other one because a utility volume has its name', () => {
  const named = buildVmi({ ...pluggedSpec('data'), utilityVolumes: [{ name: 'data', claimName: 'other' }] });
  assert.deepEqual(volumesOf(named).map(usedClaimOf), ['data']);
});

test('what a bare API server took for utility volumes is named, or passed over where the guest runs', () => {
  const odd = (utilityVolumes: unknown) => buildVmi({ utilityVolumes });
  assert.equal(vmiProblem(odd([{ name: 'dump' }])), 'spec.utilityVolumes[0].claimName is missing');
  assert.equal(vmiProblem(odd(7)), 'spec.utilityVolumes must be a list');
  for (const each of [7, 'x', [7], [null], [{}], [{ name: 'dump' }]]) assert.deepEqual(volumesOf(odd(each)), []);
});
