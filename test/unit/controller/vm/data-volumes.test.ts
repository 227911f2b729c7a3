import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type DataVolume,
  type KubeObject,
  type OwnerReference,
  type PersistentVolumeClaim,
  type ResourceType,
  resources,
  type VirtualMachine,
} from '../../../../src/api/index.ts';
import type { KnownDataVolume } from '../../../../src/controller/data-volumes/index.ts';
import { disksState, templateFacts, vmIndexes } from '../../../../src/controller/vm/data-volume-facts.ts';
import { makeDataVolumes } from '../../../../src/controller/vm/make-data-volume.ts';
import { ownerReference } from '../../../../src/controller/vm/make-vmi.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { buildVm } from '../builders.ts';

const signal = new AbortController().signal;
const mine = ownerReference('vm1', 'uid-vm');

function dataVolume(status: DataVolume['status'], owner: OwnerReference | undefined = mine): DataVolume {
  return {
    apiVersion: 'cdi.kubevirt.io/v1beta1',
    kind: 'DataVolume',
    metadata: { name: 'disk', namespace: 'default', ...(owner && { ownerReferences: [owner] }) },
    ...(status && { status }),
  };
}

const found = (object: DataVolume): KnownDataVolume => ({ kind: 'found', object });
const vmOf = (...dataVolumeTemplates: object[]) => buildVm({ dataVolumeTemplates });
const template = { metadata: { name: 'disk' }, spec: { source: { blank: {} } } };

interface Seen {
  readonly vm?: VirtualMachine;
  readonly known?: KnownDataVolume;
  readonly claim?: PersistentVolumeClaim;
  readonly answer?: Error;
}

async function factOf({ vm = vmOf(template), known = { kind: 'absent' }, claim, answer }: Seen): Promise<string> {
  const client = { get: () => Promise.reject(answer ?? new Error('nobody asks')) };
  const dataVolumes = { lookUp: () => known, peek: () => undefined };
  const [fact] = await templateFacts(vm, { client, dataVolumes, claims: { get: () => claim } }, signal);
  assert.ok(fact);
  return `${fact.state}: ${fact.detail}`;
}

const claimOf = (owner: OwnerReference): PersistentVolumeClaim => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'disk', namespace: 'default', ownerReferences: [owner] },
  spec: {},
});
const notFound = (details?: object) =>
  new KubeError('NOT_FOUND', 'not found', { httpStatus: 404, status: { kind: 'Status', details } as never });
const quota = { type: 'Bound', status: 'Unknown' as const, reason: 'ErrExceededQuota', message: '1Gi too much' };
const other = ownerReference('vm2', 'uid-other');
const unread: KnownDataVolume = { kind: 'unread', error: '404' };

const facts: readonly (readonly [situation: string, seen: Seen, fact: RegExp])[] = [
  ['is not there', {}, /^missing: /],
  ['is gone and left its claim to the VM', { claim: claimOf(mine) }, /^ready: claim disk is filled$/],
  ['is gone, and its claim belongs to another', { claim: claimOf(other) }, /^missing: /],
  ['has no phase', { known: found(dataVolume(undefined)) }, /^filling: /],
  ['imports', { known: found(dataVolume({ phase: 'ImportInProgress', progress: '5%' })) }, /^filling: .*5%$/],
  ['is filled', { known: found(dataVolume({ phase: 'Succeeded' })) }, /^ready: /],
  ['waits for a consumer', { known: found(dataVolume({ phase: 'WaitForFirstConsumer' })) }, /^ready: /],
  ['is bound later', { known: found(dataVolume({ phase: 'PendingPopulation' })) }, /^ready: /],
  ['has failed', { known: found(dataVolume({ phase: 'Failed' })) }, /^failed: /],
  ['waits', { known: found(dataVolume({ phase: 'Pending' })) }, /^filling: /],
  [
    'exceeds a quota',
    { known: found(dataVolume({ phase: 'Pending', conditions: [quota] })) },
    /^failed: .*1Gi too much/,
  ],
  ['belongs to nothing', { known: found({ ...dataVolume({}), metadata: { name: 'disk' } }) }, /^unowned: /],
  ['belongs to another VM', { known: found(dataVolume({}, other)) }, /^refused: .*VirtualMachine vm2.*another name/],
  [
    'belongs to another program',
    { known: found(dataVolume({ phase: 'Succeeded' }, { ...other, kind: 'DataImportCron' })) },
    /^ready: /,
  ],
  [
    'is on its way out',
    {
      known: found({
        ...dataVolume({ phase: 'Succeeded' }),
        metadata: { name: 'disk', deletionTimestamp: '2026-01-01T00:00:00Z' },
      }),
    },
    /^filling: .*deleted/,
  ],
  ['is not read yet', { known: { kind: 'unread', error: undefined } }, /^unread: .*not read yet/],
  ['is of a kind that the cluster lacks', { known: unread, answer: notFound() }, /^refused: .*install the/],
  ['is not there, where none can be listed', { known: unread, answer: notFound({ name: 'disk' }) }, /^unread: /],
  [
    'may not be read',
    { known: unread, answer: new KubeError('FORBIDDEN', 'no', { httpStatus: 403 }) },
    /^unread: .*cannot be read: 404/,
  ],
  ['has no name', { vm: vmOf({ spec: {} }) }, /^refused: spec\.dataVolumeTemplates\[0\]\.metadata\.name is missing/],
  [
    'is in another namespace',
    { vm: vmOf({ metadata: { name: 'disk', namespace: 'kube-system' } }) },
    /^refused: .*metadata\.namespace: .*own namespace/,
  ],
];
for (const [situation, seen, fact] of facts) {
  test(`a DataVolume of a template that ${situation}`, async () => assert.match(await factOf(seen), fact));
}

test('a server that does not answer is no reason to make or refuse anything', async () => {
  await assert.rejects(factOf({ known: unread, answer: new KubeError('TIMEOUT', 'late') }), { code: 'TIMEOUT' });
});

const running = (reason: string) => ({ type: 'Running', status: 'False' as const, reason });
const bound = { type: 'Bound', status: 'True' as const };
const disks: readonly (readonly [string, DataVolume['status']])[] = [
  ['ready', { phase: 'Succeeded' }],
  ['ready', { phase: 'PendingPopulation' }],
  ['ready', { phase: 'WaitForFirstConsumer' }],
  ['filling', { phase: 'WaitForFirstConsumer', conditions: [bound] }],
  ['filling', { phase: 'Pending' }],
  ['filling', undefined],
  ['filling', { phase: 'ImportInProgress', conditions: [running('Pod is not ready')] }],
  ['failed', { phase: 'ImportInProgress', conditions: [running('Error')] }],
  ['failed', { phase: 'ImportScheduled', conditions: [running('ImagePullFailed')] }],
  ['failed', { phase: 'Failed' }],
];
for (const [state, status] of disks) {
  test(`disks are ${state} with a DataVolume of ${JSON.stringify(status)}`, () => {
    const volumes = [{ name: 'root', dataVolume: { name: 'disk' } }];
    const vm = buildVm({ template: { spec: { domain: {}, volumes } } });
    assert.equal(disksState(vm, { peek: () => dataVolume(status) }), state);
    assert.equal(disksState(buildVm(), { peek: () => dataVolume(status) }), 'ready');
  });
}

test('a VM hears of the DataVolumes of its templates and volumes, each once', () => {
  const volumes = [{ name: 'a', dataVolume: { name: 'disk' } }, { name: 'b', dataVolume: { name: 'more' } }, 7];
  const spec = { dataVolumeTemplates: [template, {}], template: { spec: { domain: {}, volumes } } };
  assert.deepEqual(vmIndexes.dataVolume(buildVm(spec as never)), ['default/disk', 'default/more']);
  assert.deepEqual(vmIndexes.dataVolume({ ...buildVm(), spec: undefined } as never), []);
});

interface Api {
  /** By `resource namespace/name`. */
  readonly objects?: Readonly<Record<string, object>>;
  /** `resource/subresource` that the service account may create; the last review of each is kept. */
  readonly allowed?: readonly string[];
  readonly refusal?: KubeError;
}

interface ReviewSpec {
  readonly user: string;
  readonly groups: readonly string[];
  readonly resourceAttributes: Readonly<Record<string, string>>;
}

function apiWith({ objects = {}, allowed = [], refusal }: Api) {
  const made: DataVolume[] = [];
  const reviews: ReviewSpec[] = [];
  const client = {
    get: async <T extends KubeObject>(type: ResourceType, ref: { name: string; namespace?: string | undefined }) => {
      const object = objects[`${type.resource} ${ref.namespace}/${ref.name}`];
      if (!object) throw notFound({ name: ref.name });
      return object as T;
    },
    create: async <T extends KubeObject>(type: ResourceType, object: T): Promise<T> => {
      if (type === resources.subjectAccessReviews) {
        const { spec } = object as unknown as { spec: ReviewSpec };
        reviews.push(spec);
        const { resource, subresource } = spec.resourceAttributes;
        const right = [resource, subresource].filter(Boolean).join('/');
        return { ...object, status: { allowed: allowed.includes(right) } };
      }
      if (refusal) throw refusal;
      made.push(object as unknown as DataVolume);
      return object;
    },
  };
  return { client, made, reviews };
}

const pvc = { name: 'golden', namespace: 'images' };
const cloneOf = (spec: object) => ({ metadata: { name: 'disk' }, spec });
const events = (reasons: Awaited<ReturnType<typeof makeDataVolumes>>) => reasons.events.map(({ reason }) => reason);

async function make(vm: VirtualMachine, api: Api) {
  const { client, made, reviews } = apiWith(api);
  const result = await makeDataVolumes(vm, ['disk'], client, signal);
  return { made, reviews, result, reasons: events(result) };
}

test('a DataVolume is made as its template says, as the VM’s own, with its priority', async () => {
  const metadata = { name: 'disk', labels: { a: 'b', 'kubevirt.io/created-by': 'x' }, annotations: { c: 'd' } };
  const forged = { ...metadata, ownerReferences: [other] };
  const vm = buildVm({
    dataVolumeTemplates: [
      { metadata: forged, spec: { source: { blank: {} }, storage: {} } },
      { metadata: { name: 'x' } },
    ],
    template: { spec: { domain: {}, priorityClassName: 'high' } },
  });
  const { made, reviews, result, reasons } = await make(vm, {});
  assert.deepEqual(made, [
    {
      apiVersion: 'cdi.kubevirt.io/v1beta1',
      kind: 'DataVolume',
      metadata: {
        name: 'disk',
        namespace: 'default',
        labels: { a: 'b', 'kubevirt.io/created-by': 'uid-vm' },
        annotations: { c: 'd', 'cdi.kubevirt.io/allowClaimAdoption': 'true' },
        ownerReferences: [mine],
      },
      spec: { priorityClassName: 'high', source: { blank: {} }, storage: {} },
    },
  ]);
  assert.deepEqual([reviews, result.problem, reasons], [[], undefined, ['SuccessfulDataVolumeCreate']]);
});

test('one that only the cache did not show is no failure', async () => {
  const refusal = new KubeError('ALREADY_EXISTS', 'exists', { httpStatus: 409 });
  const { result } = await make(vmOf(template), { refusal });
  assert.deepEqual(result, { events: [] });
});

test('what the API server refuses is told', async () => {
  const refusal = new KubeError('INVALID', 'admission webhook denied', { httpStatus: 422 });
  const { result, reasons } = await make(vmOf(template), { refusal });
  assert.deepEqual(reasons, ['FailedDataVolumeCreate']);
  assert.match(result.problem ?? '', /^Error creating DataVolume disk: .*denied/);
});

const there = { 'persistentvolumeclaims images/golden': {}, 'persistentvolumeclaims default/golden': {} };

test('a clone within the namespace needs no right, and gets the namespace written down', async () => {
  const { made, reviews } = await make(vmOf(cloneOf({ source: { pvc: { name: 'golden' } } })), { objects: there });
  assert.deepEqual(made[0]?.spec, { source: { pvc: { name: 'golden', namespace: 'default' } } });
  assert.deepEqual(reviews, []);
});

test('a clone from another namespace is asked about for the service account of the VM', async () => {
  const volumes = [{ name: 'sa', serviceAccount: { serviceAccountName: 'builder' } }];
  const vm = buildVm({
    dataVolumeTemplates: [cloneOf({ source: { pvc } })],
    template: { spec: { domain: {}, volumes } },
  } as never);
  const { made, reviews } = await make(vm, { objects: there, allowed: ['datavolumes/source'] });
  assert.equal(made.length, 1);
  assert.deepEqual(reviews, [
    {
      user: 'system:serviceaccount:default:builder',
      groups: ['system:serviceaccounts', 'system:serviceaccounts:default', 'system:authenticated'],
      resourceAttributes: {
        ...{ group: 'cdi.kubevirt.io', resource: 'datavolumes', subresource: 'source' },
        ...{ verb: 'create', namespace: 'images', name: 'golden' },
      },
    },
  ]);
});

const snapshot = { snapshot: { name: 'golden', namespace: 'images' } };
const rights: readonly (readonly [what: string, source: object, allowed: readonly string[], isMade: boolean])[] = [
  ['a claim without any right', { pvc }, [], false],
  ['a claim with pods', { pvc }, ['pods'], true],
  ['a claim with claims', { pvc }, ['pvcs'], false],
  ['a snapshot without any right', snapshot, [], false],
  ['a snapshot with the right to clone', snapshot, ['datavolumes/source'], true],
  ['a snapshot with pods alone', snapshot, ['pods'], false],
  ['a snapshot with claims alone', snapshot, ['pvcs'], false],
  ['a snapshot with pods and claims', snapshot, ['pods', 'pvcs'], true],
];
for (const [what, source, allowed, isMade] of rights) {
  test(`a clone of ${what} is ${isMade ? 'made' : 'refused'}`, async () => {
    const { made, result, reasons } = await make(vmOf(cloneOf({ source })), { objects: there, allowed });
    assert.deepEqual(
      [made.length, reasons],
      isMade ? [1, ['SuccessfulDataVolumeCreate']] : [0, ['UnauthorizedDataVolumeCreate']],
    );
    const refusal = /system:serviceaccount:default:default has insufficient permissions .* namespace images/;
    assert.equal(refusal.test(result.problem ?? ''), !isMade);
  });
}

test('an annotation that the data is there already is no way around that right', async () => {
  const metadata = { name: 'disk', annotations: { 'cdi.kubevirt.io/storage.checkStaticVolume': '' } };
  const { made } = await make(vmOf({ metadata, spec: { source: { pvc } } }), { objects: there });
  assert.deepEqual(made, []);
});

test('the source of a clone may come later: that is only told', async () => {
  const { made, reasons } = await make(vmOf(cloneOf({ source: { pvc } })), { allowed: ['pods'] });
  assert.deepEqual([made.length, reasons], [1, ['SourcePVCNotAvailabe', 'SuccessfulDataVolumeCreate']]);
});

const sourceRef = { kind: 'DataSource', name: 'fedora', namespace: 'catalog' };
const ofCatalog = (object: object) => ({ ...there, 'datasources catalog/fedora': object });
const dataSources: readonly (readonly [what: string, object: object])[] = [
  ['a claim', { spec: { source: { pvc } } }],
  ['another DataSource', { spec: { source: { dataSource: { name: 'x' } } }, status: { source: { pvc } } }],
];
for (const [what, object] of dataSources) {
  test(`a DataSource that stands for ${what} is what it stands for, with the rights that needs`, async () => {
    const vm = vmOf(cloneOf({ sourceRef, storage: {} }));
    const { made } = await make(vm, { objects: ofCatalog(object), allowed: ['datavolumes/source'] });
    assert.deepEqual(made[0]?.spec, { storage: {}, source: { pvc: { name: 'golden', namespace: 'images' } } });
    const { reasons } = await make(vm, { objects: ofCatalog(object) });
    assert.deepEqual(reasons, ['UnauthorizedDataVolumeCreate']);
  });
}

test('a source without a namespace is in that of its DataSource', async () => {
  const objects = ofCatalog({ spec: { source: { snapshot: { name: 's' } } } });
  const { reviews } = await make(vmOf(cloneOf({ sourceRef })), { objects });
  assert.equal(reviews[0]?.resourceAttributes.namespace, 'catalog');
});

const unusable: readonly (readonly [what: string, ref: object, objects: Api['objects'], text: RegExp])[] = [
  ['a kind that is no DataSource', { kind: 'Pod', name: 'x' }, {}, /name a DataSource/],
  ['a DataSource that is not there', sourceRef, {}, /no DataSource catalog\/fedora/],
  ['a DataSource without a source', sourceRef, ofCatalog({ spec: { source: {} } }), /neither a claim nor a snapshot/],
];
for (const [what, ref, objects = {}, text] of unusable) {
  test(`a reference to ${what} is refused in words`, async () => {
    const { made, result, reasons } = await make(vmOf(cloneOf({ sourceRef: ref })), { objects });
    assert.deepEqual([made, reasons], [[], ['FailedDataVolumeCreate']]);
    assert.match(result.problem ?? '', text);
  });
}
