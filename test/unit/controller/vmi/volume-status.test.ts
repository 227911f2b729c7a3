import assert from 'node:assert/strict';
import { test } from 'node:test';
import { localStorage, type Pod, type VolumeStatus } from '../../../../src/api/index.ts';
import type { KeptState } from '../../../../src/controller/kept-state/index.ts';
import type { AttachmentPod, Claims } from '../../../../src/controller/pod/hotplug-volumes.ts';
import { volumeStatus, withKeptState } from '../../../../src/controller/vmi/volume-status.ts';
import { buildRunningPod, buildVmi, buildVmiFacts } from '../builders.ts';
import { attached, claim, claims, pluggedSpec } from './plugged.ts';

interface Row {
  readonly when: string;
  readonly old?: VolumeStatus;
  /** Volumes that the VMI has. */
  readonly volumes?: readonly string[];
  readonly claims?: Claims;
  readonly attachments?: readonly AttachmentPod[];
  /** `phase reason | message | attachPodName attachPodUID`; undefined: there is no entry. */
  readonly expected: string | undefined;
}

const statusIn = (phase: string, change: Partial<VolumeStatus> = {}): VolumeStatus => ({
  name: 'data',
  target: '',
  phase,
  hotplugVolume: { attachPodName: 'hp-volume-old', attachPodUID: 'uid-old' },
  ...change,
});

const withPhase = (phase: string): Claims => new Map([['data', claim('data', { status: { phase } })]]);
const ending = (each: AttachmentPod): AttachmentPod => ({
  ...each,
  pod: { ...each.pod, metadata: { ...each.pod.metadata, deletionTimestamp: '2026-01-01T00:10:00Z' } },
});
const now = attached('now', 'Running', 'data');
const old = attached('old', 'Running', 'data');
const created = 'SuccessfulCreate | Created hotplug attachment pod hp-volume-now, for volume data';

const rows: readonly Row[] = [
  {
    when: 'its claim is not there',
    claims: new Map(),
    expected: 'Pending FailedPvcNotFound | PVC data not found | - -',
  },
  {
    when: 'its claim waits',
    claims: withPhase('Pending'),
    expected: 'Pending PVCNotReady | PVC is in phase ClaimPending | - -',
  },
  {
    when: 'its claim is lost',
    claims: withPhase('Lost'),
    expected: 'Pending PVCNotReady | PVC is in phase Lost | - -',
  },
  { when: 'its claim is bound', expected: 'Bound PVCNotReady | PVC is in phase Bound | - -' },
  {
    when: 'its attachment pod runs',
    attachments: [now],
    expected: `AttachedToNode ${created} | hp-volume-now uid-now`,
  },
  {
    when: 'its attachment pod is not ready yet',
    attachments: [attached('now', 'Pending', 'data')],
    expected: `AttachedToNode ${created} | hp-volume-now -`,
  },
  {
    when: 'its attachment pod is of somebody else',
    attachments: [{ ...now, isOwn: false }],
    expected: 'Bound PVCNotReady | PVC is in phase Bound | - -',
  },
  {
    when: 'its attachment pod ends',
    attachments: [ending(now)],
    expected: 'Bound PVCNotReady | PVC is in phase Bound | - -',
  },
  {
    when: 'the agent has mounted it',
    old: statusIn('MountedToPod', { reason: 'VolumeMountedToPod', message: 'by the agent' }),
    attachments: [now],
    expected: 'MountedToPod VolumeMountedToPod | by the agent | hp-volume-now uid-now',
  },
  {
    when: 'the guest has it, and a new attachment pod is on its way',
    old: statusIn('Ready'),
    attachments: [attached('now', 'Pending', 'data')],
    expected: 'Ready - | - | hp-volume-now -',
  },
  {
    when: 'the guest has it, and its attachment pod is gone',
    old: statusIn('Ready'),
    expected: 'Ready - | - | hp-volume-old uid-old',
  },
  {
    when: 'the guest has not got it, and its attachment pod is gone',
    old: statusIn('AttachedToNode'),
    expected: 'Bound PVCNotReady | PVC is in phase Bound | hp-volume-old -',
  },
  {
    when: 'the launcher has it, and its pod is about to be replaced',
    old: statusIn('MountedToPod'),
    attachments: [attached('old', 'Running', 'data', 'another')],
    expected: 'MountedToPod - | - | hp-volume-old uid-old',
  },
  {
    when: 'the launcher has it, and its pod is gone',
    old: statusIn('MountedToPod'),
    expected: 'Bound PVCNotReady | PVC is in phase Bound | hp-volume-old -',
  },
  {
    when: 'it was put back after the agent had let go of it',
    old: statusIn('UnMountedFromPod'),
    attachments: [now],
    expected: 'Bound PVCNotReady | PVC is in phase Bound | hp-volume-now uid-now',
  },
  {
    when: 'it was put back before its old pod was gone',
    old: statusIn('Detaching'),
    attachments: [now],
    expected: 'Bound PVCNotReady | PVC is in phase Bound | hp-volume-now uid-now',
  },
  { when: 'it is gone from the VMI and has no pod', volumes: [], old: statusIn('Detaching'), expected: undefined },
  {
    when: 'it is gone from the VMI, and the guest has it',
    volumes: [],
    old: statusIn('Ready'),
    attachments: [old],
    expected: 'Ready - | - | hp-volume-old uid-old',
  },
  {
    when: 'it is gone from the VMI, and the launcher has it though its pod is gone',
    volumes: [],
    old: statusIn('MountedToPod'),
    expected: 'MountedToPod - | - | hp-volume-old uid-old',
  },
  {
    when: 'it is gone from the VMI, and the agent has let go of it',
    volumes: [],
    old: statusIn('UnMountedFromPod'),
    attachments: [old],
    expected: 'Detaching - | - | hp-volume-old uid-old',
  },
  {
    when: 'it is gone from the VMI, and its pod ends',
    volumes: [],
    old: statusIn('Detaching'),
    attachments: [ending(old)],
    expected:
      'Detaching SuccessfulDelete | Deleted hotplug attachment pod hp-volume-old, for volume data | hp-volume-old uid-old',
  },
  {
    when: 'a volume of the start is gone from the VMI',
    volumes: [],
    old: { name: 'data', target: 'vda' },
    expected: undefined,
  },
];

function entriesOf({ old: known, volumes = ['data'], claims: found = claims('data'), attachments = [] }: Row) {
  const vmi = buildVmi(pluggedSpec(...volumes), { phase: 'Running', ...(known && { volumeStatus: [known] }) });
  return volumeStatus({ vmi, pod: buildRunningPod(), attachments, claims: found });
}

for (const row of rows) {
  test(`the entry of a plugged volume when ${row.when}: ${row.expected?.split(' ')[0] ?? 'none'}`, () => {
    const [entry] = entriesOf(row);
    const words =
      entry &&
      `${entry.phase} ${entry.reason ?? '-'} | ${entry.message ?? '-'} | ` +
        `${entry.hotplugVolume?.attachPodName || '-'} ${entry.hotplugVolume?.attachPodUID || '-'}`;
    assert.equal(words, row.expected);
  });
}

test('an entry says of the claim what agent and launcher need, as upstream does', () => {
  const annotations = { 'cdi.kubevirt.io/storage.preallocation': 'true' };
  const found = claim('data', { metadata: { name: 'data', namespace: 'default', annotations } });
  const [entry] = entriesOf({ when: '', claims: new Map([['data', found]]), expected: undefined });
  assert.deepEqual(entry?.persistentVolumeClaimInfo, {
    claimName: 'data',
    accessModes: ['ReadWriteOnce'],
    volumeMode: 'Filesystem',
    capacity: { storage: '2Gi' },
    requests: { storage: '1Gi' },
    preallocated: true,
    filesystemOverhead: '0.055',
  });
});

test('a claim of the standalone node has no file system that takes a share of it', () => {
  const annotations = { [localStorage.provisionerAnnotation]: localStorage.driver };
  const found = claim('data', { metadata: { name: 'data', namespace: 'default', annotations } });
  const [entry] = entriesOf({ when: '', claims: new Map([['data', found]]), expected: undefined });
  assert.equal(entry?.persistentVolumeClaimInfo?.filesystemOverhead, '0');
});

test('a volume of the launcher pod is no plugged one, and has the facts of its claim', () => {
  const pod: Pod = buildRunningPod();
  pod.spec.volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
  const vmi = buildVmi(pluggedSpec('data'), { phase: 'Running' });
  const [entry] = volumeStatus({ vmi, pod, attachments: [], claims: claims('data') });
  assert.equal(entry?.phase, undefined);
  assert.equal(entry?.hotplugVolume, undefined);
  assert.equal(entry?.persistentVolumeClaimInfo?.claimName, 'data');
});

test('entries are sorted by name, and what the agent wrote into them stays', () => {
  const known: VolumeStatus = { name: 'b', target: 'sda', size: 7 };
  const vmi = buildVmi(pluggedSpec('b', 'a'), { phase: 'Running', volumeStatus: [known] });
  const found = volumeStatus({ vmi, pod: undefined, attachments: [], claims: new Map() });
  assert.deepEqual(found, [{ name: 'a', target: '' }, known]);
});

test('the claim that keeps a TPM has an entry among those of the volumes, for which others look by its name', () => {
  const kept = { kind: 'ready', claim: claim('kept') } as const;
  const vmi = buildVmi({}, { volumeStatus: [{ name: 'persistent-state-for-this-vm', target: '', more: 'stays' }] });
  const entries = (state: KeptState) =>
    withKeptState([{ name: 'z', target: '' }], buildVmiFacts({ vmi, keptState: state }));
  const info = { claimName: 'kept', accessModes: ['ReadWriteOnce'] };
  assert.deepEqual(entries(kept), [
    { name: 'persistent-state-for-this-vm', target: '', more: 'stays', persistentVolumeClaimInfo: info },
    { name: 'z', target: '' },
  ]);
  assert.deepEqual(entries({ kind: 'none' }), [{ name: 'z', target: '' }]);
});
