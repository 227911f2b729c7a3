import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod, VmiPhase, VolumeStatus } from '../../../../src/api/index.ts';
import type { AttachmentPod, Claims } from '../../../../src/controller/pod/hotplug-volumes.ts';
import { planAttachments } from '../../../../src/controller/vmi/attachments.ts';
import { volumeStatus } from '../../../../src/controller/vmi/volume-status.ts';
import { buildConfig, buildPod, buildRunningPod, buildVmi } from '../builders.ts';
import { attached, claim, claims, pluggedSpec } from './plugged.ts';

interface Row {
  readonly when: string;
  readonly pod?: Pod;
  readonly phase?: VmiPhase;
  readonly volumes?: readonly string[];
  readonly claims?: Claims;
  /** Phase by volume, for volumes that were plugged in before. */
  readonly known?: Readonly<Record<string, string>>;
  readonly attachments?: readonly AttachmentPod[];
  readonly expected: string;
}

const later = (each: AttachmentPod): AttachmentPod => ({
  ...each,
  pod: { ...each.pod, metadata: { ...each.pod.metadata, creationTimestamp: '2026-01-01T00:09:00Z' } },
});
const ending = (each: AttachmentPod): AttachmentPod => ({
  ...each,
  pod: { ...each.pod, metadata: { ...each.pod.metadata, deletionTimestamp: '2026-01-01T00:10:00Z' } },
});
const dataVolume = (annotations: Record<string, string>, phase: string) =>
  claim('data', {
    metadata: {
      name: 'data',
      namespace: 'default',
      uid: 'uid-claim-data',
      annotations,
      ownerReferences: [
        { apiVersion: 'cdi.kubevirt.io/v1beta1', kind: 'DataVolume', name: 'data', uid: 'dv', controller: true },
      ],
    },
    status: { phase },
  });
const one = (found: ReturnType<typeof claim>): Claims => new Map([['data', found]]);

const rows: readonly Row[] = [
  { when: 'a claim is there', expected: 'make data' },
  { when: 'two are there', volumes: ['a', 'b'], claims: claims('a', 'b'), expected: 'make a,b' },
  { when: 'one of two is not there', volumes: ['a', 'b'], claims: claims('b'), expected: 'make b' },
  {
    when: 'a claim waits for its first consumer',
    claims: one(claim('data', { status: { phase: 'Pending' } })),
    expected: 'make data',
  },
  { when: 'a claim is lost', claims: one(claim('data', { status: { phase: 'Lost' } })), expected: '-' },
  { when: 'a DataVolume is not bound yet', claims: one(dataVolume({}, 'Pending')), expected: '-' },
  {
    when: 'a DataVolume is being filled',
    claims: one(dataVolume({ 'cdi.kubevirt.io/storage.pod.phase': 'Running' }, 'Bound')),
    expected: '-',
  },
  {
    when: 'a DataVolume is filled',
    claims: one(dataVolume({ 'cdi.kubevirt.io/storage.pod.phase': 'Succeeded' }, 'Bound')),
    expected: 'make data',
  },
  { when: 'the launcher pod is not ready', pod: buildPod(), expected: '-' },
  {
    when: 'the launcher pod ends',
    pod: buildPod({ phase: 'Running' }, { deletionTimestamp: '2026-01-01T00:10:00Z' }),
    expected: '-',
  },
  { when: 'the pod is there', attachments: [attached('now', 'Running', 'data')], expected: '-' },
  { when: 'the pod is on its way', attachments: [attached('now', 'Pending', 'data')], expected: '-' },
  {
    when: 'the pod of somebody else claims to hold it',
    attachments: [{ ...attached('foreign', 'Running', 'data'), isOwn: false }],
    expected: 'make data',
  },
  {
    when: 'the pod has ended',
    attachments: [attached('old', 'Failed', 'data')],
    expected: 'make data; delete uid-old',
  },
  {
    when: 'the pod is being deleted',
    attachments: [ending(attached('old', 'Running', 'data'))],
    expected: 'make data',
  },
  {
    when: 'a second volume comes, and the first one’s pod runs',
    volumes: ['a', 'data'],
    claims: claims('a', 'data'),
    known: { a: 'Ready' },
    attachments: [attached('old', 'Running', 'a')],
    expected: 'make a mounted,data',
  },
  {
    when: 'a second volume comes, and the first one’s pod is on its way',
    volumes: ['a', 'data'],
    claims: claims('a', 'data'),
    attachments: [attached('old', 'Pending', 'a')],
    expected: 'make a,data; delete uid-old',
  },
  {
    when: 'the successor is on its way',
    volumes: ['a', 'data'],
    claims: claims('a', 'data'),
    known: { a: 'Ready' },
    attachments: [attached('old', 'Running', 'a'), later(attached('now', 'Pending', 'a', 'data'))],
    expected: '-',
  },
  {
    when: 'the successor runs',
    volumes: ['a', 'data'],
    claims: claims('a', 'data'),
    known: { a: 'Ready' },
    attachments: [attached('old', 'Running', 'a'), later(attached('now', 'Running', 'a', 'data'))],
    expected: 'delete uid-old',
  },
  {
    when: 'two old ones are there, and the successor is on its way',
    volumes: ['data'],
    attachments: [attached('older', 'Running', 'data', 'a'), later(attached('old', 'Running', 'data', 'b'))],
    expected: 'make data; delete uid-older',
  },
  {
    when: 'a volume is gone, and the guest has it',
    volumes: [],
    known: { data: 'Ready' },
    attachments: [attached('old', 'Running', 'data')],
    expected: '-',
  },
  {
    when: 'a volume is gone, and the launcher has it mounted',
    volumes: [],
    known: { data: 'MountedToPod' },
    attachments: [attached('old', 'Running', 'data')],
    expected: '-',
  },
  {
    when: 'a volume is gone, and the agent has let go of it',
    volumes: [],
    known: { data: 'UnMountedFromPod' },
    attachments: [attached('old', 'Running', 'data')],
    expected: 'delete uid-old',
  },
  {
    when: 'the claim of a disk in the guest is not in the cache',
    claims: new Map(),
    known: { data: 'Ready' },
    attachments: [attached('now', 'Running', 'data')],
    expected: '-',
  },
  {
    when: 'the claim of a disk in the guest is gone, and its pod, too',
    claims: new Map(),
    known: { data: 'Ready' },
    expected: '-',
  },
  {
    when: 'the volume has another claim now',
    claims: new Map([['other', claim('other')]]),
    volumes: ['data=other'],
    attachments: [attached('old', 'Running', 'data')],
    expected: 'make data',
  },
];

function planOf(row: Row): string {
  const { volumes = ['data'], phase = 'Running', known = {}, attachments = [] } = row;
  const spec = pluggedSpec(...volumes.map((name) => name.split('=')[0] ?? ''));
  for (const [index, name] of volumes.entries()) {
    const source = spec.volumes?.[index]?.persistentVolumeClaim;
    if (source) source.claimName = name.split('=')[1] ?? name;
  }
  const volumeStatus = Object.entries(known).map(
    ([name, at]): VolumeStatus => ({ name, target: '', phase: at, hotplugVolume: {} }),
  );
  const pod = row.pod ?? buildRunningPod();
  const facts = {
    vmi: buildVmi(spec, { phase, volumeStatus }),
    pods: [pod],
    foreignPods: [],
    temporaryPod: undefined,
    fillings: [],
    triggers: [],
    pluggedFillings: [],
    pod,
    attachments,
    claims: row.claims ?? claims('data'),
    keptState: { kind: 'none' as const },
    hasOwnerVm: false,
    tscFrequency: undefined,
    config: buildConfig(),
    now: new Date(0),
  };
  let made = '';
  const { superseded } = planAttachments(facts, (_, __, held) => {
    made = `make ${held.map(({ volume, isMounted }) => (isMounted ? `${volume} mounted` : volume))}`;
    return buildPod();
  });
  const deleted = superseded.map(({ metadata }) => metadata.uid);
  return [made, ...(deleted.length > 0 ? [`delete ${deleted}`] : [])].filter(Boolean).join('; ') || '-';
}

for (const row of rows) {
  test(`attachment pods when ${row.when}: ${row.expected}`, () => assert.equal(planOf(row), row.expected));
}

test('what is no list of volumes is none: a bare API server lets anything stand there, also while the guest runs', () => {
  for (const volumes of ['x', [null, 7, { name: 5 }, { name: 'a', persistentVolumeClaim: { claimName: {} } }]]) {
    const vmi = buildVmi({ ...pluggedSpec(), volumes: volumes as never }, { phase: 'Running' });
    const pod = buildRunningPod();
    const facts = {
      vmi,
      pods: [pod],
      foreignPods: [],
      temporaryPod: undefined,
      fillings: [],
      triggers: [],
      pluggedFillings: [],
      pod,
      attachments: [],
      claims: claims('a'),
    };
    const rest = {
      keptState: { kind: 'none' as const },
      hasOwnerVm: false,
      tscFrequency: undefined,
      config: buildConfig(),
      now: new Date(0),
    };
    assert.deepEqual(
      planAttachments({ ...facts, ...rest }, () => buildPod()),
      { superseded: [], awaiting: [] },
    );
    assert.ok(volumeStatus({ vmi, pod, attachments: [], claims: claims('a') }).every(({ name }) => name === 'a'));
  }
});
