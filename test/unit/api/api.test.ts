import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  binaryQuantity,
  domainName,
  findCondition,
  hasDedicatedCpus,
  isFinal,
  isNonRoot,
  isOlderVersion,
  isOwnedByNode,
  keyOf,
  parseDomainName,
  parseKey,
  parseQuantity,
  placeholderVmi,
  type VirtualMachineInstance,
} from '../../../src/api/index.ts';

function vmi(change: Partial<VirtualMachineInstance> = {}): VirtualMachineInstance {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name: 'demo', namespace: 'default' },
    spec: { domain: {} },
    ...change,
  };
}

test('quantities have decimal, binary and exponent forms, and malformed ones have no value', () => {
  const table: [string | number, number | undefined][] = [
    ['128Mi', 134217728],
    ['1Gi', 2 ** 30],
    ['1.5Gi', 1.5 * 2 ** 30],
    ['500m', 0.5],
    ['2k', 2000],
    ['1e3', 1000],
    ['1E', 1e18],
    [2, 2],
    ['-1', -1],
    ['.5', 0.5],
    ['', undefined],
    ['1KiB', undefined],
    ['ten', undefined],
    ['1 Gi', undefined],
    [Number.NaN, undefined],
  ];
  for (const [quantity, value] of table) assert.equal(parseQuantity(quantity), value, JSON.stringify(quantity));
});

test('whole bytes are written in the shortest exact form, as the API server does it', () => {
  const table: [number, string][] = [
    [0, '0'],
    [1023, '1023'],
    [1024, '1Ki'],
    [1025, '1025'],
    [536_870_912, '512Mi'],
    [999_292_928, '953Mi'],
    [2 ** 40, '1Ti'],
    [3 * 2 ** 60, '3Ei'],
    [2 ** 70, '1024Ei'],
  ];
  for (const [bytes, quantity] of table) assert.equal(binaryQuantity(bytes), quantity);
});

test('a key has exactly two parts', () => {
  assert.equal(keyOf(vmi()), 'default/demo');
  assert.deepEqual(parseKey('default/demo'), { namespace: 'default', name: 'demo' });
  for (const key of ['demo', '/demo', 'default/', 'a/b/c', '']) assert.equal(parseKey(key), undefined, key);
});

test('a domain name is split at its first underscore, and without one the namespace is default', () => {
  assert.equal(domainName('ns', 'a'), 'ns_a');
  assert.deepEqual(parseDomainName('ns_a_b'), { namespace: 'ns', name: 'a_b' });
  assert.deepEqual(parseDomainName('lonely'), { namespace: 'default', name: 'lonely' });
});

test('a VMI belongs to a node by its label or by its status', () => {
  assert.equal(isOwnedByNode(vmi(), 'n1'), false);
  assert.equal(isOwnedByNode(vmi({ status: { nodeName: 'n1' } }), 'n1'), true);
  const labelled = vmi({ metadata: { name: 'a', labels: { 'kubevirt.io/nodeName': 'n1' } } });
  assert.equal(isOwnedByNode(labelled, 'n1'), true);
  assert.equal(isOwnedByNode(labelled, 'n2'), false);
});

test('final, non-root and condition predicates read absent fields as unset', () => {
  assert.equal(isFinal(vmi()), false);
  assert.equal(isFinal(vmi({ status: { phase: 'Succeeded' } })), true);
  assert.equal(isNonRoot(vmi({ status: { runtimeUser: 0 } })), false);
  assert.equal(isNonRoot(vmi({ status: { runtimeUser: 107 } })), true);
  assert.equal(findCondition(undefined, 'Ready'), undefined);
});

test('a guest has CPUs of its own only where the spec says true, and a spec of a wrong shape says nothing', () => {
  const placed = (cpu: unknown) => vmi({ spec: { domain: { cpu } } as unknown as VirtualMachineInstance['spec'] });
  assert.equal(hasDedicatedCpus(placed({ dedicatedCpuPlacement: true })), true);
  for (const cpu of [undefined, null, 'all', {}, { dedicatedCpuPlacement: false }, { dedicatedCpuPlacement: 'true' }]) {
    assert.equal(hasDedicatedCpus(placed(cpu)), false, JSON.stringify(cpu));
  }
  assert.equal(hasDedicatedCpus({ ...vmi(), spec: null as unknown as VirtualMachineInstance['spec'] }), false);
  assert.equal(hasDedicatedCpus(undefined), false);
});

test('an object is older by the number of its version, and never where one has none', () => {
  const at = (resourceVersion?: string) =>
    vmi({ metadata: { name: 'demo', ...(resourceVersion && { resourceVersion }) } });
  assert.equal(isOlderVersion(at('9'), at('10')), true);
  assert.equal(isOlderVersion(at('10'), at('10')), false);
  assert.equal(isOlderVersion(at('10'), at('9')), false);
  assert.equal(isOlderVersion(at(), at('9')), false);
  assert.equal(isOlderVersion(at('9'), at('odd')), false);
});

test('of a VMI that is no more, its launcher is told namespace, name and UID, and the name alone when the key is odd', () => {
  assert.deepEqual(placeholderVmi('ns/demo', 'uid-1').metadata, { namespace: 'ns', name: 'demo', uid: 'uid-1' });
  assert.deepEqual(placeholderVmi('demo', 'uid-1').metadata, { namespace: '', name: 'demo', uid: 'uid-1' });
});
