import assert from 'node:assert/strict';
import fc from 'fast-check';
import { fillVmiSpec } from '../../src/apiserver/admission/vmi-defaults.ts';
import { ApiError } from '../../src/apiserver/errors.ts';
import type { ApiObject } from '../../src/apiserver/object.ts';
import { asObject, checkName } from '../../src/apiserver/objects/identity.ts';
import { parseRevision, parseSelectors, Reader } from '../../src/apiserver/objects/reader.ts';
import { parseFieldSelector, parseLabelSelector, selectedName } from '../../src/apiserver/objects/selectors.ts';
import { applyJsonPatch } from '../../src/apiserver/patch/json-patch.ts';
import { toTable } from '../../src/apiserver/print/table.ts';
import { mediaType, parseBody } from '../../src/apiserver/rest/body.ts';
import { deleteOptions } from '../../src/apiserver/rest/delete.ts';
import { wantsAggregated } from '../../src/apiserver/rest/discovery.ts';
import { negotiate } from '../../src/apiserver/rest/negotiate.ts';
import { patchChange } from '../../src/apiserver/rest/patch.ts';
import { protobufType } from '../../src/apiserver/rest/protobuf/decode.ts';
import { isDryRun, parsePath, parseQuery } from '../../src/apiserver/rest/request.ts';
import { StoreError } from '../../src/apiserver/store/errors.ts';
import { parseEntry, parseState } from '../../src/apiserver/store/records.ts';
import { apiTypes, findType } from '../../src/apiserver/types/registry.ts';
import { isRecord } from '../../src/base/index.ts';
import { clusterDefaultsWith } from '../fixtures/cluster-defaults.ts';
import { launcherVmi } from '../fixtures/launcher-vmi.ts';
import {
  bytesChange,
  changedBytes,
  changedJson,
  changedText,
  changedValue,
  fuzz,
  judged,
  repeated,
  together,
} from './kit/index.ts';

/** What anybody who reaches the API server may send, with or without a token. */

const isApiError = (error: unknown) => error instanceof ApiError;

const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: 'a',
    namespace: 'default',
    labels: { app: 'x' },
    finalizers: ['a/b'],
    ownerReferences: [{ uid: '1', name: 'n', kind: 'K', apiVersion: 'v1' }],
  },
  spec: {
    containers: [
      {
        name: 'main',
        image: 'i',
        env: [{ name: 'X', value: '1' }],
        ports: [{ containerPort: 80 }],
        resources: { limits: { cpu: '1', memory: '1Gi' } },
      },
    ],
    volumes: [{ name: 'v', emptyDir: {} }],
    tolerations: [{ key: 'a' }],
  },
  status: {
    phase: 'Running',
    containerStatuses: [{ name: 'main', restartCount: 1, ready: true, state: { running: {} } }],
    conditions: [{ type: 'Ready', status: 'True' }],
  },
};
const vmi = {
  ...launcherVmi(),
  spec: {
    ...launcherVmi().spec,
    domain: {
      ...launcherVmi().spec.domain,
      cpu: { cores: 2 },
      memory: { guest: '64Mi' },
      devices: {
        disks: [{ name: 'root', disk: { bus: 'virtio' } }],
        interfaces: [{ name: 'default', masquerade: {}, ports: [{ port: 22 }] }],
      },
    },
    networks: [{ name: 'default', pod: {} }],
    volumes: [{ name: 'root', containerDisk: { image: 'demo' } }],
  },
};
const vm = {
  apiVersion: 'kubevirt.io/v1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'default' },
  spec: { runStrategy: 'Always', template: { metadata: {}, spec: vmi.spec } },
};
const others = [
  {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n' },
    status: {
      conditions: [{ type: 'Ready', status: 'True' }],
      addresses: [{ type: 'InternalIP', address: '1.2.3.4' }],
      nodeInfo: {},
    },
  },
  {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 's', namespace: 'default' },
    data: { a: 'YQ==' },
    stringData: { b: 'c' },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 's', namespace: 'default' },
    spec: { ports: [{ port: 80, protocol: 'TCP' }] },
  },
  {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: 'e', namespace: 'default' },
    involvedObject: { name: 'a' },
    count: 2,
    lastTimestamp: '2026-01-02T03:04:05Z',
  },
];
const objects = [pod, vmi, vm, ...others];

const yaml = [
  'apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: {a: b, "c": \'d\'}\nspec:\n  containers:\n  - name: x\n    image: y\n    args: [a, "b", |-\n      c]\n',
  '# comment\na: &x [1, 2.5e3, ~, true, 0x1F, 2026-01-01]\nb: *x\nc: >\n  folded\n  text\n',
  '"a": |\n  block\n  text\n? complex\n: value\n',
];

const bodies = fc.oneof(
  fc.tuple(fc.constant('application/json'), changedJson(objects)),
  fc.tuple(
    fc.constantFrom('application/json; charset=utf-8', '', 'application/yaml', 'text/html'),
    changedJson(objects),
  ),
  fc.tuple(
    fc.constant('application/yaml'),
    changedText(yaml, ['&a [*a]', '<<: *x', '!!js/function', '%YAML 9', '---\n', '...\n', '\t']),
  ),
);

const yamlBytes = 32 * 1024;

fuzz('api: bodies in JSON and YAML', {
  input: bodies,
  parse: ([type, text]) =>
    judged(isApiError, () => {
      const value = parseBody(Buffer.from(text), type);
      assert.ok(!(isRecord(value) && Object.hasOwn(value, '__proto__')));
      assert.ok((JSON.stringify(value)?.length ?? 0) < 200 * text.length + 1024);
    }),
  growing: {
    'JSON brackets': (bytes) => together('application/json', '['.repeat(bytes)),
    'JSON lines': (bytes) => together('application/json', `${'\n'.repeat(bytes)}x`),
    'YAML members': (bytes) =>
      together('application/yaml', Array.from({ length: bytes / 10 }, (_, index) => `a${index}: 1\n`).join('')),
    'YAML dashes': (bytes) => together('application/yaml', '- '.repeat(bytes / 2)),
    'YAML flow': (bytes) => together('application/yaml', `[${'a,'.repeat(bytes / 2)}]`),
    'YAML anchors': (bytes) =>
      together('application/yaml', Array.from({ length: bytes / 8 }, (_, index) => `- &a${index} 1\n`).join('')),
    'YAML quotes': (bytes) => together('application/yaml', `"${'\\n'.repeat(bytes / 2)}"`),
    'YAML comments': (bytes) => together('application/yaml', '#\n'.repeat(bytes / 2)),
    'YAML blanks': (bytes) => together('application/yaml', `a: b${' '.repeat(bytes)}c\n`),
    'YAML folded': (bytes) => together('application/yaml', `a: >\n${' x\n'.repeat(bytes / 3)}`),
    'YAML colons': (bytes) => together('application/yaml', ':'.repeat(bytes)),
  },
  growingTo: 4 * yamlBytes,
});

const tag = (number: number, type: 0 | 2) => (number << 3) | type;
const field = (number: number, value: Buffer | string) => {
  const bytes = Buffer.from(value);
  return Buffer.concat([Buffer.from([tag(number, 2), ...varint(bytes.length)]), bytes]);
};
function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}
const envelope = (apiVersion: string, kind: string, raw: Buffer) =>
  Buffer.concat([Buffer.from('k8s\0'), field(1, Buffer.concat([field(1, apiVersion), field(2, kind)])), field(2, raw)]);
const metadata = Buffer.concat([
  field(1, 'a'),
  field(3, 'default'),
  field(8, Buffer.from([8, 0x80, 1])),
  field(11, Buffer.concat([field(1, 'k'), field(2, 'v')])),
  field(14, 'a/b'),
  field(14, 'c/d'),
]);
const head = field(1, metadata);
const protobuf = [
  envelope(
    'v1',
    'ConfigMap',
    Buffer.concat([head, field(2, Buffer.concat([field(1, 'a'), field(2, 'b')])), Buffer.from([tag(4, 0), 1])]),
  ),
  envelope(
    'v1',
    'Secret',
    Buffer.concat([head, field(2, Buffer.concat([field(1, 'a'), field(2, 'b')])), field(3, 'Opaque')]),
  ),
  envelope('v1', 'Namespace', Buffer.concat([head, field(2, field(1, 'kubernetes'))])),
  envelope('v1', 'Service', Buffer.concat([head, field(2, field(1, Buffer.from([tag(3, 0), 80])))])),
  envelope('policy/v1', 'Eviction', head),
];

fuzz('api: bodies in protobuf', {
  input: fc.tuple(fc.constantFrom(...protobuf), bytesChange),
  parse: ([sample, change]) => {
    const bytes = change(sample);
    return judged(isApiError, () => {
      const value = parseBody(bytes, protobufType);
      assert.ok(isRecord(value) && !Object.hasOwn(value, '__proto__'));
      assert.ok(JSON.stringify(value).length < 16 * bytes.length + 1024);
    });
  },
  growing: {
    finalizers: (bytes) => together(envelope('v1', 'Namespace', field(2, Buffer.alloc(bytes, field(1, 'a')))), same),
    'empty finalizers': (bytes) =>
      together(envelope('v1', 'Namespace', field(2, Buffer.alloc(bytes, field(1, '')))), same),
    'members of a map': (bytes) => together(envelope('v1', 'ConfigMap', Buffer.concat(mapEntries(bytes / 12))), same),
  },
});

const same = (bytes: Uint8Array) => Buffer.from(bytes);
const mapEntries = (count: number) =>
  Array.from({ length: count }, (_, index) => field(2, field(1, `k${index.toString(36)}`)));

const labelSelectors = ['a=b,c!=d', 'e in (f,g),h notin (i)', 'j,!k', 'l>3,m<5', 'kubevirt.io/x==y', 'a in ()'];

fuzz('api: label selectors', {
  input: changedText(labelSelectors, ['in', 'notin', '(', ')', ' in (', ',']),
  parse: (text) =>
    judged(isApiError, () => {
      const matches = parseLabelSelector(text);
      for (const labels of [undefined, {}, { a: 'b', e: 'f', l: '7' }]) assert.equal(typeof matches(labels), 'boolean');
    }),
  growing: {
    letters: repeated('a'),
    blanks: repeated(' ', 'a', 'in (b)'),
    'blanks after a word': repeated(' ', 'a in'),
    parentheses: repeated('('),
    terms: repeated('a=b,'),
    values: repeated('a,', 'x in (', ')'),
    dashes: repeated('a-', '', '/'),
    slashes: repeated('a/'),
  },
});

const fieldSelectors = ['metadata.name=a', 'metadata.namespace!=b,status.phase==Running', 'spec.nodeName=a\\,b\\=c'];

fuzz('api: field selectors', {
  input: changedText(fieldSelectors, ['\\', '\\,', '!=', '==', 'metadata.name', 'status.phase']),
  parse: (text) => {
    selectedName(text);
    return judged(isApiError, () => {
      const matches = parseFieldSelector(text, ['status.phase', 'spec.nodeName']);
      assert.equal(typeof matches(pod as unknown as ApiObject), 'boolean');
    });
  },
  growing: {
    'terms with a name': repeated('metadata.name=a,'),
    backslashes: repeated('\\', 'metadata.name='),
    commas: repeated(','),
    'backslashes and commas': repeated('\\,', 'metadata.name='),
    'no end of a name': repeated('metadata.name', ''),
    blanks: repeated(' ', 'a', 'b'),
  },
});

const continued = Buffer.from(JSON.stringify({ v: 1, rv: 3, start: 'default/a' })).toString('base64url');
const urls = [
  '/api/v1/namespaces/default/pods/a/status?labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&limit=5',
  `/apis/kubevirt.io/v1/virtualmachines?continue=${continued}&resourceVersion=`,
  '/api/v1/namespaces/a/finalize?dryRun=All',
  '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances?resourceVersion=5&resourceVersionMatch=Exact&watch=1',
];
const store = { revision: 7, oldestRevision: 2, list: () => [], listAt: () => [], get: () => undefined };
const reader = new Reader(store as never);

fuzz('api: paths, queries, revisions and continue tokens', {
  input: fc.oneof(
    changedText(urls, ['%2e%2e', '%00', '//', '/namespaces/', '&limit=', '&continue=', '&__proto__=1', '%', '?']),
    changedJson([{ v: 1, rv: 3, start: 'default/a' }]).map(
      (text) => `/api/v1/pods?continue=${Buffer.from(text).toString('base64url')}`,
    ),
  ),
  parse: (url) =>
    judged(isApiError, () => {
      const query = parseQuery(url);
      assert.ok(!Object.hasOwn(query, '__proto__'));
      isDryRun(query.dryRun);
      parseRevision(query.resourceVersion);
      const [, , group = '', version = '', ...rest] = (url.split('?')[0] ?? '').split('/');
      const isCore = url.startsWith('/api/');
      const path = parsePath(isCore ? '' : group, isCore ? group : version, isCore ? [version, ...rest] : rest);
      const { entries } = reader.list(path.type, path.namespace, query);
      assert.deepEqual(entries, []);
    }),
  growing: {
    parameters: repeated('&a=b', '/api/v1/pods?'),
    'parts of a path': repeated('/a', '/api/v1'),
    percents: repeated('%25', '/api/v1/pods?labelSelector='),
  },
});

const accepts = [
  'application/json;as=Table;v=v1;g=meta.k8s.io,application/json',
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json',
  'text/html, */*;q=0.8',
  'application/vnd.kubernetes.protobuf,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1',
];

fuzz('api: Accept and Content-Type', {
  input: changedText(accepts, [';as=', ';q=', ',', '=']),
  parse: (text) => {
    wantsAggregated(text);
    assert.ok(mediaType(text).length <= text.length);
    return judged(isApiError, () => {
      assert.ok(['plain', 'table', 'partial'].includes(negotiate(text).kind));
    });
  },
  growing: { ranges: repeated('a/b,'), parameters: repeated(';a=b', 'a/b'), blanks: repeated(' ', 'a', 'b') },
});

const patches = [
  [
    { op: 'add', path: '/metadata/labels/a', value: 'b' },
    { op: 'test', path: '/kind', value: 'Pod' },
    { op: 'copy', from: '/spec', path: '/x' },
  ],
  [
    { op: 'remove', path: '/spec/containers/0' },
    { op: 'move', from: '/spec/volumes', path: '/v' },
    { op: 'replace', path: '', value: {} },
  ],
  {
    metadata: { labels: { a: null, b: 'c' } },
    spec: { containers: [{ name: 'main', image: 'z', $patch: 'replace' }], $retainKeys: ['containers'] },
  },
  {
    metadata: { '$deleteFromPrimitiveList/finalizers': ['a/b'] },
    spec: { '$setElementOrder/containers': [{ name: 'main' }], containers: [{ name: 'side', $patch: 'delete' }] },
  },
];
const podType = findType('', 'v1', 'pods') ?? assert.fail();
const media = ['json-patch', 'merge-patch', 'strategic-merge-patch'].map((name) => `application/${name}+json`);

fuzz('api: patches', {
  input: fc.tuple(
    fc.constantFrom(...media, 'application/apply-patch+yaml'),
    changedJson(patches, {
      depths: [3, 40, 200],
      words: [
        '/metadata',
        '/spec/containers/-',
        '~1',
        '~0',
        '$patch',
        '$setElementOrder/volumes',
        'merge',
        'delete',
        'replace',
      ],
    }),
  ),
  parse: ([contentType, text]) =>
    judged(isApiError, () => {
      const before = JSON.stringify(pod);
      const change = patchChange(podType, { body: Buffer.from(text), contentType });
      const made = change(pod as unknown as ApiObject);
      assert.equal(JSON.stringify(pod), before);
      const after = JSON.stringify(made) ?? '';
      assert.ok(after.length < 4 * (before.length + text.length) + 3 * 2 ** 20);
      // No directive of a strategic merge patch ever gets into an object.
      assert.ok(contentType !== media[2] || !membersOf(made).some((name) => directive.test(name)));
      assert.ok(!Object.hasOwn(Object.prototype, 'polluted'));
    }),
  growing: {
    'operations that add': (bytes) =>
      together(
        media[0] ?? '',
        JSON.stringify(
          Array(Math.floor(Math.min(10_000, bytes / 40))).fill({ op: 'add', path: '/spec/tolerations/-', value: 1 }),
        ),
      ),
    'members of a merge patch': (bytes) =>
      together(
        media[1] ?? '',
        JSON.stringify(Object.fromEntries(Array.from({ length: bytes / 12 }, (_, index) => [`a${index}`, 1]))),
      ),
    'elements of a strategic patch': (bytes) =>
      together(
        media[2] ?? '',
        JSON.stringify({
          spec: { containers: Array.from({ length: bytes / 20 }, (_, index) => ({ name: `n${index}` })) },
        }),
      ),
    'order of a strategic patch': (bytes) =>
      together(
        media[2] ?? '',
        JSON.stringify({
          spec: {
            '$setElementOrder/containers': Array.from({ length: bytes / 20 }, (_, index) => ({ name: `n${index}` })),
            containers: [],
          },
        }),
      ),
    'primitive values to delete': (bytes) =>
      together(
        media[2] ?? '',
        JSON.stringify({
          metadata: { finalizers: words(bytes / 16), '$deleteFromPrimitiveList/finalizers': words(bytes / 16) },
        }),
      ),
  },
  growingTo: 2 ** 18,
});

const directive = /^\$(?:patch|retainKeys|setElementOrder|deleteFromPrimitiveList)/;

function membersOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => [name, ...membersOf(member)]);
}

const words = (count: number) => Array.from({ length: count }, (_, index) => `a/${index}`);

fuzz('api: JSON patch of anything', {
  input: fc.tuple(
    changedValue([pod, [1, 2, 3]], { depths: [3, 40] }),
    changedValue(patches.slice(0, 2), { depths: [3], words: ['/0', '/-', '/spec'] }),
  ),
  parse: ([target, patch]) =>
    judged(isApiError, () => {
      applyJsonPatch(target, patch);
    }),
});

const admissionContext = {
  old: undefined,
  now: new Date(0),
  hasNewSpec: true,
  privileged: false,
  randomUuid: () => '5d307ca9-b3ef-428c-8861-06e72d69f223',
  cluster: clusterDefaultsWith({
    liveUpdate: { rolloutStrategy: 'LiveUpdate', liveUpdateRatio: 4, maxCpuSockets: 0, maxGuest: undefined },
  }),
} as const;

fuzz('api: admission and tables of objects with anything anywhere', {
  input: fc.tuple(fc.nat({ max: apiTypes.length - 1 }), changedValue(objects, { depths: [3, 40, 250] }), fc.boolean()),
  known: [
    [0, JSON.parse('{"kind":"VirtualMachine","metadata":{"name":"a"},"spec":{"runStrategy":[{"toString":0}]}}'), false],
  ],
  parse: ([which, body, isUpdate]) =>
    judged(isApiError, () => {
      const given = Array.isArray(body) || !isRecord(body) ? body : { ...body };
      const own =
        apiTypes.find((each) => isRecord(given) && given.kind === each.kind) ?? apiTypes[which] ?? assert.fail();
      const object = asObject(given, own, 'default');
      checkName(object, { namespace: 'default', name: object.metadata.name ?? 'a' });
      const context = {
        ...admissionContext,
        old: isUpdate ? (structuredClone(pod) as unknown as ApiObject) : undefined,
      };
      own.admission.fill?.(object, context);
      const errors = own.admission.validate?.(object, context) ?? [];
      assert.ok(errors.every(({ field, message }) => typeof field === 'string' && typeof message === 'string'));
      parseSelectors(own, {})(object);
      const table = toTable(own, [object], { include: 'Object', now: new Date(0), metadata: {}, withColumns: true });
      const [row] = table.rows as { cells: unknown[] }[];
      assert.ok(row?.cells.every((cell) => ['string', 'number', 'boolean'].includes(typeof cell)));
    }),
});

fuzz('api: defaults of a VMI', {
  input: changedValue([vmi.spec]),
  parse: (spec) => {
    if (!isRecord(spec) || !isRecord(spec.domain)) return 'refused';
    const errors = apiTypes
      .find(({ kind }) => kind === 'VirtualMachineInstance')
      ?.admission.validate?.({ ...vmi, spec: structuredClone(spec) } as unknown as ApiObject, admissionContext);
    if (errors === undefined || errors.length > 0) return 'refused';
    fillVmiSpec(spec, undefined, admissionContext);
    // Filled once is filled for ever.
    const once = JSON.stringify(spec);
    fillVmiSpec(spec, undefined, admissionContext);
    assert.equal(JSON.stringify(spec), once);
    return 'accepted';
  },
});

const options = {
  kind: 'DeleteOptions',
  apiVersion: 'v1',
  gracePeriodSeconds: 5,
  propagationPolicy: 'Background',
  preconditions: { uid: 'a', resourceVersion: '3' },
  dryRun: ['All'],
  orphanDependents: false,
};

fuzz('api: options of a DELETE', {
  input: fc.tuple(
    changedJson([options]),
    changedText(['/a?gracePeriodSeconds=5&propagationPolicy=Orphan&dryRun=All', '/a']),
  ),
  known: [['{"gracePeriodSeconds":{"toString":0}}', '/a']],
  parse: ([text, url]) =>
    judged(isApiError, () => {
      const { gracePeriodSeconds = 0 } = deleteOptions({
        body: Buffer.from(text),
        contentType: 'application/json',
        query: parseQuery(url),
      } as never);
      assert.ok(Number.isSafeInteger(gracePeriodSeconds) && gracePeriodSeconds >= 0);
    }),
});

const entry = JSON.stringify({ ...pod, metadata: { ...pod.metadata, resourceVersion: '5' } });

fuzz('api: records of the store', {
  input: fc.tuple(
    changedText(['o!pods!default!a', 'o!virtualmachines.kubevirt.io!default!a']),
    changedBytes([Buffer.from(entry), Buffer.from('{"format":1,"revision":5,"count":2,"revisionSum":9}')]),
  ),
  parse: ([key, bytes]) => {
    const isStoreError = (error: unknown) => error instanceof StoreError;
    const text = bytes.toString('utf8');
    const state = judged(isStoreError, () => void parseState(text));
    const read = judged(isStoreError, () => {
      const { revision, object, name } = parseEntry(key, text);
      assert.ok(Number.isSafeInteger(revision) && object.metadata.name === name);
    });
    return state === 'accepted' || read === 'accepted' ? 'accepted' : 'refused';
  },
});
