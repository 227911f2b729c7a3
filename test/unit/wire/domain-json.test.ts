import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeDomain, negotiateVersion, parseJson } from '../../../src/wire/index.ts';

const smallest = { ObjectMeta: { name: 'vm', namespace: 'ns' } };

describe('decodeDomain', () => {
  it('fills in every key that is read when only the identity is there', () => {
    const domain = decodeDomain(JSON.stringify(smallest));
    assert.equal(domain.Status.Status, '');
    assert.equal(domain.Spec.Metadata.KubeVirt.UID, '');
    assert.equal(domain.Spec.Devices.Disks, null);
    assert.equal(domain.Status.OSInfo.Name, '');
    assert.equal('deletionTimestamp' in domain.ObjectMeta, false);
  });

  it('keeps keys that are not known', () => {
    const domain = decodeDomain(JSON.stringify({ ...smallest, Spec: { VCPU: { CPUs: 2 }, Devices: { Rng: {} } } }));
    assert.deepEqual(domain.Spec.VCPU, { CPUs: 2 });
    assert.deepEqual(domain.Spec.Devices.Rng, {});
  });

  it('takes null for every pointer and list', () => {
    const nulls = { Spec: { Features: null, Devices: null, Metadata: null, OS: null }, Status: null };
    assert.equal(decodeDomain(JSON.stringify({ ...smallest, ...nulls })).Spec.Features, null);
  });

  it('names the place of a wrong type', () => {
    const wrong = { ...smallest, Spec: { Devices: { Disks: [{}, { Alias: { Name: 7 } }] } } };
    assert.throws(() => decodeDomain(JSON.stringify(wrong)), {
      code: 'JSON_SHAPE',
      message: 'domain.Spec.Devices.Disks[1].Alias.Name: expected a string, found a number',
    });
  });

  it('refuses a domain without name, and anything that is no object', () => {
    for (const text of ['{}', 'null', '[]', '"x"', '7', '{"ObjectMeta":{"name":"","namespace":"a"}}']) {
      assert.throws(() => decodeDomain(text), { code: 'JSON_SHAPE' }, text);
    }
  });

  it('a key __proto__ changes nobody’s prototype', () => {
    decodeDomain(
      '{"ObjectMeta":{"name":"a","namespace":"b"},"__proto__":{"polluted":1},"Spec":{"__proto__":{"polluted":1}}}',
    );
    assert.equal(({} as { polluted?: number }).polluted, undefined);
  });

  it('refuses a number that this runtime can only hold as infinite', () => {
    const text = JSON.stringify({ ...smallest, Status: { PanicCount: 7 } }).replace('7', '1e999');
    assert.throws(() => decodeDomain(text), { code: 'JSON_SHAPE', message: /domain\.Status\.PanicCount/ });
  });

  it('refuses a list that would fill the memory: a megabyte of empty disks stays as 70', () => {
    const disks = (count: number) =>
      JSON.stringify({ ...smallest, Spec: { Devices: { Disks: Array.from({ length: count }, () => ({})) } } });
    assert.equal(decodeDomain(disks(8_192)).Spec.Devices.Disks?.length, 8_192);
    assert.throws(() => decodeDomain(disks(8_193)), {
      code: 'JSON_SHAPE',
      message: 'domain.Spec.Devices.Disks: a list of 8193 entries, 8192 are possible',
    });
  });
});

describe('parseJson', () => {
  const limits = { maxBytes: 100, maxDepth: 3 };

  it('takes what is just within the limits', () => {
    assert.deepEqual(parseJson('[[["]]]]{{{\\"[["]]]', limits), [[[']]]]{{{"[[']]]);
    assert.equal(parseJson(`"${'x'.repeat(98)}"`, limits), 'x'.repeat(98));
  });

  it('refuses one level and one byte more, before parsing', () => {
    assert.throws(() => parseJson('[[[[', limits), { code: 'JSON_TOO_DEEP' });
    assert.throws(() => parseJson(`"${'x'.repeat(99)}"`, limits), { code: 'JSON_TOO_LARGE' });
  });

  it('names what is invalid', () => {
    assert.throws(() => parseJson('{', limits), { code: 'JSON_INVALID' });
  });
});

describe('negotiateVersion', () => {
  it('takes the highest common version', () => {
    assert.equal(negotiateVersion([1, 2, 3], [2, 1]), 2);
  });

  it('refuses when there is none, with both lists', () => {
    const text = 'no compatible version found: client supports [1], server supports [2 3]';
    assert.throws(() => negotiateVersion([2, 3]), { code: 'NO_COMMON_VERSION', message: text });
    assert.throws(() => negotiateVersion([]), { code: 'NO_COMMON_VERSION' });
  });
});
