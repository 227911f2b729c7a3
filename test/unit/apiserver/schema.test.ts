import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { checkSchema, isKnownPattern } from '../../../src/apiserver/schema/check.ts';
import {
  duplicateMembers,
  prune,
  SchemaLibrary,
  type SchemaNode,
  schemaKey,
} from '../../../src/apiserver/schema/index.ts';
import { apiTypes } from '../../../src/apiserver/types/index.ts';

const library = new SchemaLibrary();
const vmiType = { group: 'kubevirt.io', version: 'v1', kind: 'VirtualMachineInstance' };
const podType = { group: '', version: 'v1', kind: 'Pod' };

async function schemaOf(type: typeof vmiType): Promise<SchemaNode> {
  const schema = await library.of(type);
  assert.ok(schema, schemaKey(type));
  return schema;
}

const options = { formOnly: false, except: ['apiVersion', 'kind', 'metadata'] };
const vmi = (spec: object) => ({ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: {}, spec });

/** Of the modules that the schemas come from, none has these. */
const without = /^(?:snapshot\.storage\.k8s\.io|cdi\.kubevirt\.io|metrics\.k8s\.io)\//;

describe('the schemas that are shipped', () => {
  test('there is one for each resource', async () => {
    const missing: string[] = [];
    for (const type of apiTypes) if (!(await library.of(type))) missing.push(schemaKey(type));
    assert.deepEqual(
      missing.filter((key) => !without.test(key)),
      [],
    );
  });

  test('every pattern in them is one that is checked, and every reference leads somewhere', async () => {
    const { structureJson } = await import('../../../src/apiserver/schema/gen/structure.gen.ts');
    const { definitions } = JSON.parse(structureJson);
    const patterns = [...structureJson.matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(([, text = '']) =>
      JSON.parse(text),
    );
    assert.equal(new Set(patterns).size, 4);
    assert.deepEqual(
      patterns.filter((pattern) => !isKnownPattern(pattern)),
      [],
    );
    const references = [...structureJson.matchAll(/"\$ref":"([^"]+)"/g)].map(([, name = '']) => name);
    assert.deepEqual(
      references.filter((name) => !Object.hasOwn(definitions, name)),
      [],
    );
  });

  test('the documents say the same as the structure, and have words', async () => {
    const { names, definitions } = await library.documentsOf([vmiType, podType]);
    assert.equal(names.size, 2);
    const text = JSON.stringify(definitions);
    assert.match(text, /Disks describes disks, cdroms and luns/);
    assert.match(text, /List of containers belonging to the pod/);
    const references = [...text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)].map(([, name = '']) => name);
    assert.ok(references.length > 200);
    assert.ok(references.every((name) => Object.hasOwn(definitions, name)));
  });
});

describe('pruning', () => {
  test('takes away unknown fields at any depth, names them, and leaves all else', async () => {
    const known = { domain: { devices: { disks: [{ name: 'a', disk: {} }] }, clock: { anything: [1] } } };
    const object = vmi({ ...structuredClone(known), more: { x: 1 } });
    Object.assign((object.spec as typeof known).domain.devices.disks[0] ?? {}, { dsik: {} });
    assert.deepEqual(prune(object, await schemaOf(vmiType), { nulls: 'of definitions' }), [
      'spec.domain.devices.disks[0].dsik',
      'spec.more',
    ]);
    assert.deepEqual(object.spec, known);
  });

  test('fills in the defaults of a definition, where their object is there', async () => {
    const volumes: object[] = [
      { name: 'a', cloudInitNoCloud: { secretRef: {} } },
      { name: 'b', emptyDisk: {} },
    ];
    const object = vmi({ volumes });
    prune(object, await schemaOf(vmiType), { nulls: 'of definitions' });
    assert.deepEqual(volumes, [
      { name: 'a', cloudInitNoCloud: { secretRef: { name: '' } } },
      { name: 'b', emptyDisk: {} },
    ]);
  });

  test('drops null, but from maps of what Go reads and where a definition allows it', async () => {
    const pod = { spec: { hostname: null, nodeSelector: { a: null }, containers: [] } };
    assert.deepEqual(prune(pod, await schemaOf(podType), { nulls: 'of Go' }), []);
    assert.deepEqual(pod.spec, { nodeSelector: { a: null }, containers: [] });
    const object = vmi({ hostname: null, nodeSelector: { a: null }, volumes: [null] });
    prune(object, await schemaOf(vmiType), { nulls: 'of definitions' });
    assert.deepEqual(object.spec, { nodeSelector: {}, volumes: [null] });
    const status = { conditions: [{ lastProbeTime: null, status: 'True', type: 'Ready' }] };
    prune({ status }, await schemaOf(vmiType), { nulls: 'of definitions' });
    assert.equal(status.conditions[0]?.lastProbeTime, null);
  });

  test('names a hundred of very many, and takes all', async () => {
    const object = vmi(Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`x${index}`, 1])));
    assert.equal(prune(object, await schemaOf(vmiType), { nulls: 'of definitions' }).length, 100);
    assert.deepEqual(object.spec, {});
  });
});

describe('checking', () => {
  const errorsOf = async (spec: object) =>
    checkSchema(vmi(spec), await schemaOf(vmiType), options).map(({ field, reason }) => [field, reason]);

  test('says field, reason and words of each fault', async () => {
    assert.deepEqual(await errorsOf({ domain: { devices: {}, cpu: { cores: 'x', sockets: 2 ** 31 } }, volumes: {} }), [
      ['spec.domain.cpu.cores', 'FieldValueTypeInvalid'],
      ['spec.domain.cpu.sockets', 'FieldValueTypeInvalid'],
      ['spec.volumes', 'FieldValueTypeInvalid'],
    ]);
    assert.deepEqual(await errorsOf({}), [['spec.domain', 'FieldValueRequired']]);
    assert.deepEqual(await errorsOf({ domain: { devices: {}, resources: { requests: { memory: '1Q' } } } }), [
      ['spec.domain.resources.requests.memory', 'FieldValueInvalid'],
    ]);
    const [first] = checkSchema(vmi({ hostname: 1, domain: { devices: {} } }), await schemaOf(vmiType), options);
    assert.equal(first?.message, 'Invalid value: "integer": spec.hostname in body must be of type string: "integer"');
  });

  test('a null is a fault where the definition does not allow it', async () => {
    assert.deepEqual(await errorsOf({ volumes: [null], domain: { devices: {} } }), [
      ['spec.volumes[0]', 'FieldValueTypeInvalid'],
    ]);
  });

  test('a number of JSON, a share and a quantity are told apart as the definition does', async () => {
    for (const [memory, isRight] of [
      ['64Mi', true],
      [67_108_864, true],
      ['-1', true],
      [true, false],
      ['many', false],
    ] as const) {
      assert.equal((await errorsOf({ domain: { devices: {}, memory: { guest: memory } } })).length === 0, isRight);
    }
  });

  test('elements of a list that is a map or a set occur once', () => {
    const list = { type: 'array', items: { type: 'object', properties: { a: {} } } } as const;
    const schema = (more: object) => ({ type: 'object', properties: { x: { ...list, ...more } } }) as SchemaNode;
    const keyed = schema({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['a'] });
    const reasonsOf = (node: SchemaNode) => checkSchema({ x: [{ a: 1, b: 1 }, { a: 1 }] }, node, options);
    assert.deepEqual(
      reasonsOf(keyed).map(({ field, reason }) => [field, reason]),
      [['x[1]', 'FieldValueDuplicate']],
    );
    assert.deepEqual(reasonsOf(schema({ 'x-kubernetes-list-type': 'set' })), []);
    assert.deepEqual(reasonsOf(schema({})), []);
  });
});

describe('members that occur twice', () => {
  test('are found at any depth, by what their names mean', () => {
    assert.deepEqual(duplicateMembers('{"a":1,"b":{"c":[{"d":1,"d":2}]},"a":{"a":1}}'), ['b.c[0].d', 'a']);
    assert.deepEqual(duplicateMembers('{"a":1,"\\u0061":2}'), ['a']);
    assert.deepEqual(duplicateMembers('{"a":"\\"a\\":1,","b":["a","a",{"a":1},{"a":1}]}'), []);
  });

  test('no JSON that was written by a program has any', () => {
    fc.assert(
      fc.property(fc.json(), (text) => assert.deepEqual(duplicateMembers(JSON.stringify(JSON.parse(text))), [])),
    );
  });
});

test('names of conditions and their reasons are checked as their patterns say', async () => {
  const type = { group: 'backup.kubevirt.io', version: 'v1alpha1', kind: 'VirtualMachineBackup' };
  const schema = await schemaOf(type);
  const problems = (name: string, reason: string) => {
    const condition = { type: name, status: 'True', reason, message: '', lastTransitionTime: '2026-01-01T00:00:00Z' };
    const source = { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'x' };
    const backup = { apiVersion: 'backup.kubevirt.io/v1alpha1', kind: type.kind, metadata: {}, spec: { source } };
    const object = { ...backup, status: { conditions: [condition] } };
    return checkSchema(object, schema, options).map(({ field }) => field);
  };
  for (const name of ['Ready', 'a.b/Ready', 'x-1.y/R_e.a-d']) assert.deepEqual(problems(name, 'Why_1'), []);
  for (const name of ['', '-a', 'a-', 'A.b/Ready', 'a..b/c', 'a-/c', 'a/b/c', '/c'])
    assert.deepEqual(problems(name, 'W'), ['status.conditions[0].type'], name);
  for (const reason of ['1st', 'two words', 'a,', 'a:'])
    assert.deepEqual(problems('Ready', reason), ['status.conditions[0].reason'], reason);
});
