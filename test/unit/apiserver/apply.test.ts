import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { FieldSet, pathOfElements } from '../../../src/apiserver/apply/field-set.ts';
import { Managers } from '../../../src/apiserver/apply/managers.ts';
import { compareTyped, fieldsOf, mergeTyped, withoutFields } from '../../../src/apiserver/apply/typed.ts';
import type { SchemaNode } from '../../../src/apiserver/schema/index.ts';

const text = { type: 'string' } as const;
const schema: SchemaNode = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        keyed: {
          type: 'array',
          items: { type: 'object', properties: { name: text, proto: { ...text, default: 'TCP' }, value: text } },
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['proto', 'name'],
        },
        values: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
        whole: { type: 'array', items: text },
        map: { type: 'object', additionalProperties: text },
        atom: { type: 'object', additionalProperties: text, 'x-kubernetes-map-type': 'atomic' },
      },
    },
  },
};
const paths = (set: FieldSet) => [...set.paths()].map(pathOfElements).sort();
const fields = (spec: object) => paths(fieldsOf({ spec }, schema));

describe('the fields of a value', () => {
  test('are leaves, elements by key or value, and members of free maps; atoms and plain lists are one field', () => {
    assert.deepEqual(fields({ whole: ['a'], atom: { a: 'b' }, map: { a: 'b' } }), [
      '.spec.atom',
      '.spec.map.a',
      '.spec.whole',
    ]);
    assert.deepEqual(fields({ values: ['a', 'b'] }), ['.spec.values[="a"]', '.spec.values[="b"]']);
    assert.deepEqual(fields({ keyed: [{ name: 'a', value: 'x' }] }), [
      '.spec.keyed[name="a",proto="TCP"]',
      '.spec.keyed[name="a",proto="TCP"].name',
      '.spec.keyed[name="a",proto="TCP"].value',
    ]);
    assert.deepEqual(fields({ map: {}, keyed: [] }), ['.spec.keyed', '.spec.map']);
  });
});

describe('sets of fields', () => {
  const element = fc.constantFrom('f:a', 'f:b', 'k:{"name":"x"}', 'v:1');
  const set = fc.array(fc.array(element, { minLength: 1, maxLength: 4 })).map((all) => FieldSet.of(...all));

  test('are what they were after they were written and read', () => {
    fc.assert(
      fc.property(set, (one) => {
        const read = FieldSet.fromJson(JSON.parse(JSON.stringify(one.toJson())));
        assert.deepEqual(read && paths(read), paths(one));
      }),
    );
  });

  test('follow the laws of sets', () => {
    fc.assert(
      fc.property(set, set, (one, two) => {
        const [a, b] = [new Set(paths(one)), new Set(paths(two))];
        assert.deepEqual(paths(one.union(two)), [...new Set([...a, ...b])].sort());
        assert.deepEqual(paths(one.intersection(two)), [...a].filter((path) => b.has(path)).sort());
        assert.deepEqual(paths(one.difference(two)), [...a].filter((path) => !b.has(path)).sort());
        assert.equal(one.equals(two), paths(one).join() === paths(two).join());
      }),
    );
  });

  test('what is no such set is none', () => {
    for (const value of [null, [], { 'x:a': {} }, { 'f:a': 1 }, { 'k:{': {} }, { 'i:x': {} }, { 'f:a': { b: {} } }]) {
      assert.equal(FieldSet.fromJson(value), undefined, JSON.stringify(value));
    }
  });
});

describe('merging', () => {
  const merged = (live: object, config: object) =>
    mergeTyped({ spec: live }, { spec: config }, schema) as { spec: object };

  test('takes the configuration’s word, and leaves what it does not name', () => {
    assert.deepEqual(
      merged({ map: { a: '1', b: '2' }, atom: { a: '1' } }, { map: { b: '3' }, atom: { b: '2' } }).spec,
      {
        map: { a: '1', b: '3' },
        atom: { b: '2' },
      },
    );
    assert.deepEqual(merged({ whole: ['a', 'b'] }, { whole: ['c'] }).spec, { whole: ['c'] });
    assert.deepEqual(merged({ map: { a: '1' } }, { map: {} }).spec, { map: { a: '1' } });
  });

  test('finds elements by their keys, with a key’s default', () => {
    const live = {
      keyed: [
        { name: 'a', proto: 'TCP', value: '1' },
        { name: 'b', proto: 'UDP' },
      ],
    };
    assert.deepEqual(merged(live, { keyed: [{ name: 'a', value: '2' }, { name: 'b' }] }).spec, {
      keyed: [{ name: 'a', proto: 'TCP', value: '2' }, { name: 'b', proto: 'UDP' }, { name: 'b' }],
    });
  });

  test('puts elements in the configuration’s order, and others where they stood', () => {
    const order = (live: string, config: string) => {
      const values = (all: string) => ({ values: [...all] });
      return (merged(values(live), values(config)).spec as { values: string[] }).values.join('');
    };
    assert.equal(order('xay', 'ab'), 'xayb');
    assert.equal(order('abc', 'ca'), 'bca');
    assert.equal(order('axb', 'ba'), 'xba');
    assert.equal(order('ab', 'xb'), 'axb');
    assert.equal(order('', 'ab'), 'ab');
    assert.equal(order('ab', ''), 'ab');
  });

  test('any two values merge to one that has all fields of both and the second’s values', () => {
    const values = fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd'));
    const map = fc.dictionary(fc.constantFrom('a', 'b'), fc.constantFrom('1', '2'));
    const spec = fc.record({ values, map });
    fc.assert(
      fc.property(spec, spec, (live, config) => {
        const result = merged(live, config);
        const { modified, removed } = compareTyped({ spec: config }, result, schema);
        assert.deepEqual([paths(modified), paths(removed)], [[], []]);
        assert.deepEqual(paths(compareTyped({ spec: live }, result, schema).removed), []);
      }),
    );
  });
});

describe('comparing', () => {
  test('tells what came, changed and went, with the objects and elements that did', () => {
    const before = { spec: { values: ['a'], map: { x: '1', y: '1' }, keyed: [{ name: 'a', value: '1' }] } };
    const after = {
      spec: { values: ['b'], map: { x: '2' }, keyed: [{ name: 'a', value: '2' }, { name: 'b' }], whole: ['a'] },
    };
    const { added, modified, removed } = compareTyped(before, after, schema);
    assert.deepEqual(paths(added), [
      '.spec.keyed[name="b",proto="TCP"]',
      '.spec.keyed[name="b",proto="TCP"].name',
      '.spec.values[="b"]',
      '.spec.whole',
    ]);
    assert.deepEqual(paths(modified), ['.spec.keyed[name="a",proto="TCP"].value', '.spec.map.x']);
    assert.deepEqual(paths(removed), ['.spec.map.y', '.spec.values[="a"]']);
  });

  test('a value without the fields that came is the old one again', () => {
    const before = { spec: { map: { x: '1' }, values: ['a'] } };
    const after = { spec: { map: { x: '1', y: '2' }, values: ['a', 'b'], whole: ['c'] } };
    assert.deepEqual(withoutFields(after, compareTyped(before, after, schema).added, schema), before);
  });
});

describe('managers', () => {
  const now = new Date(0);
  const id = (manager: string, operation: 'Apply' | 'Update' = 'Update') => ({
    manager,
    operation,
    apiVersion: 'v1',
    subresource: undefined,
  });

  test('more than ten that update become ten, the oldest together', () => {
    let managers = Managers.none;
    for (let index = 0; index < 30; index++) {
      managers = managers.with(id(`m${index}`), FieldSet.of([`f:x${index}`]), new Date(index * 60_000));
    }
    managers = managers.with(id('keeps', 'Apply'), FieldSet.of(['f:y']), now);
    const list = managers.toJson() as { manager: string; operation: string; fieldsV1: object }[];
    assert.equal(list.filter(({ operation }) => operation === 'Update').length, 10);
    const ancient = list.find(({ manager }) => manager === 'ancient-changes');
    assert.equal(Object.keys(ancient?.fieldsV1 ?? {}).length, 21);
    assert.deepEqual(list.at(0)?.manager, 'keeps');
  });

  test('what a client sends is a list of managers, or none', () => {
    const [good] = Managers.none.with(id('a'), FieldSet.of(['f:a']), now).toJson() ?? [];
    assert.equal(Managers.read([good])?.isEmpty, false);
    for (const bad of [undefined, {}, [1], [{ ...good, operation: 'Eat' }], [{ ...good, fieldsV1: { x: {} } }]]) {
      assert.equal(Managers.read(bad), undefined);
    }
  });
});
