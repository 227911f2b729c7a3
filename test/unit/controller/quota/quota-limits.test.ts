import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject, LabelSelector, Pod, ResourceType, VmiSpec } from '../../../../src/api/index.ts';
import { createWithLimits, NamespaceQuotas, withNeededLimits } from '../../../../src/controller/quota/index.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildPod, buildVmi } from '../builders.ts';

interface Around {
  /** Amounts of the namespace's quotas. */
  readonly quotas?: readonly object[];
  readonly labels?: Record<string, string>;
  readonly limitedNamespaces?: LabelSelector;
  readonly refusal?: KubeError;
  readonly domain?: Partial<VmiSpec['domain']>;
  readonly limits?: Record<string, string>;
}

const signal = new AbortController().signal;
const asked: string[] = [];

async function limitsOf({ quotas = [], labels = {}, limitedNamespaces, refusal, domain, limits }: Around) {
  asked.length = 0;
  const client = {
    list: async <T extends KubeObject>(type: ResourceType) => {
      asked.push(type.resource);
      if (refusal) throw refusal;
      return { items: quotas.map((hard) => ({ spec: { hard } })) as unknown as T[], resourceVersion: '1' };
    },
    get: async <T extends KubeObject>(type: ResourceType) => {
      asked.push(type.resource);
      return { metadata: { name: 'default', labels } } as T;
    },
  };
  const pod = buildPod();
  const requests = { memory: '100Mi', cpu: '100m' };
  const containers = [
    { name: 'compute', image: 'x', resources: { requests, ...(limits && { limits }) } },
    { name: 'volumerootdisk', image: 'y' },
  ];
  const given: Pod = { ...pod, spec: { ...pod.spec, containers } };
  const vmi = buildVmi({ domain: { ...domain } });
  const counted = new NamespaceQuotas({ client, clock: new FakeClock() });
  const { spec } = await withNeededLimits(given, vmi, { client, quotas: counted, limitedNamespaces, signal });
  assert.deepEqual(spec.containers[1], containers[1]);
  return spec.containers[0]?.resources?.limits;
}

const memory = { 'limits.memory': '1Gi' };
const cpu = { 'limits.cpu': '4' };
const limited: LabelSelector = { matchLabels: { limited: 'yes' } };
const ratio = (value: string) => ({ 'alpha.kubevirt.io/auto-memory-limits-ratio': value });
const twice = String(200 * 2 ** 20);

const rows: readonly (readonly [situation: string, around: Around, limits: object | undefined])[] = [
  ['no quota', {}, undefined],
  ['a quota of requests', { quotas: [{ 'requests.memory': '1Gi', pods: '9' }] }, undefined],
  ['a quota of memory limits', { quotas: [{ pods: '9' }, memory] }, { memory: twice }],
  ['a ratio of the namespace', { quotas: [memory], labels: ratio('1.5') }, { memory: String(150 * 2 ** 20) }],
  ['a ratio below 1', { quotas: [memory], labels: ratio('0.5') }, { memory: twice }],
  ['a ratio that is no number', { quotas: [memory], labels: ratio('much') }, { memory: twice }],
  ['an empty ratio', { quotas: [memory], labels: ratio('') }, { memory: twice }],
  [
    'limits that the VMI gives',
    { quotas: [memory, cpu], limits: { memory: '1Gi', cpu: '7' } },
    { memory: '1Gi', cpu: '7' },
  ],
  ['a limit of devices', { quotas: [memory], limits: { kvm: '1' } }, { kvm: '1', memory: twice }],
  ['a quota of CPU limits', { quotas: [cpu] }, { cpu: '1' }],
  [
    'a quota of CPU limits and a guest with threads',
    { quotas: [cpu], domain: { cpu: { cores: 2, sockets: 2 }, ioThreads: { supplementalPoolThreadCount: 3 } } },
    { cpu: '7' },
  ],
  ['a namespace of those with CPU limits', { limitedNamespaces: limited, labels: { limited: 'yes' } }, { cpu: '1' }],
  ['a namespace of the others', { limitedNamespaces: limited, labels: { limited: 'no' } }, undefined],
  ['no right to read quotas', { refusal: new KubeError('FORBIDDEN', 'no') }, undefined],
  ['an API server without quotas', { refusal: new KubeError('NOT_FOUND', 'no') }, undefined],
];
for (const [situation, around, limits] of rows) {
  test(`limits of a launcher with ${situation}`, async () => assert.deepEqual(await limitsOf(around), limits));
}

test('an API server that does not answer is no reason to make a pod without limits', async () => {
  await assert.rejects(limitsOf({ refusal: new KubeError('TIMEOUT', 'late') }), { code: 'TIMEOUT' });
});

test('where no quota counts limits nothing but the quotas is asked for', async () => {
  await limitsOf({});
  assert.deepEqual(asked, ['resourcequotas']);
});

test('the pods of one second share an answer, those of each namespace their own; what failed is asked again', async () => {
  const clock = new FakeClock();
  const lists: string[] = [];
  let hard: object = {};
  let refusal: KubeError | undefined;
  const client = {
    list: async <T extends KubeObject>(_type: ResourceType, { namespace = '' }: { namespace?: string } = {}) => {
      lists.push(namespace);
      if (refusal) throw refusal;
      return { items: [{ spec: { hard } }] as unknown as T[], resourceVersion: '1' };
    },
  };
  const quotas = new NamespaceQuotas({ client, clock });
  refusal = new KubeError('TIMEOUT', 'late');
  await assert.rejects(quotas.countedIn('one', signal), { code: 'TIMEOUT' });
  refusal = undefined;
  for (const namespace of ['one', 'one', 'two', 'one']) await quotas.countedIn(namespace, signal);
  assert.deepEqual(lists, ['one', 'one', 'two']);
  hard = memory;
  await clock.pass(1_000);
  assert.deepEqual([...(await quotas.countedIn('one', signal))], ['limits.memory']);
});

test('a pod that is refused has its namespace asked anew: a quota may be newer than the answer', async () => {
  let lists = 0;
  const client = {
    list: async <T extends KubeObject>() => {
      lists++;
      return { items: [] as T[], resourceVersion: '1' };
    },
    get: async <T extends KubeObject>() => ({ metadata: {} }) as T,
    create: async <T extends KubeObject>(_type: ResourceType, body: T): Promise<T> => {
      if (lists > 1) return body;
      throw new KubeError('FORBIDDEN', 'failed quota: must specify limits.memory');
    },
  };
  const quotas = new NamespaceQuotas({ client, clock: new FakeClock() });
  const deps = { client, quotas, limitedNamespaces: undefined, signal };
  await assert.rejects(createWithLimits(buildPod(), buildVmi({}), deps), { code: 'FORBIDDEN' });
  await createWithLimits(buildPod(), buildVmi({}), deps);
  await createWithLimits(buildPod(), buildVmi({}), deps);
  assert.equal(lists, 2);
});
