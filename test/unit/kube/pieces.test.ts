import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { resources } from '../../../src/api/index.ts';
import { fieldSelector, objectPath, RateLimiter } from '../../../src/kube/index.ts';
import { LineSplitter } from '../../../src/kube/watch.ts';

test('a field selector escapes what its syntax uses', () => {
  assert.equal(fieldSelector({ 'metadata.name': 'a=b,c\\d' }), 'metadata.name=a\\=b\\,c\\\\d');
});

test('paths name group, namespace and subresource, and cluster-wide types have no namespace', () => {
  assert.equal(
    objectPath(resources.virtualMachines, { namespace: 'ns', name: 'vm' }, 'status'),
    '/apis/kubevirt.io/v1/namespaces/ns/virtualmachines/vm/status',
  );
  assert.equal(objectPath(resources.nodes, { namespace: 'ignored', name: 'n' }), '/api/v1/nodes/n');
  assert.throws(() => objectPath(resources.pods, { name: 'p' }), { code: 'INVALID' });
});

test('the rate limiter gives its burst at once and then one token per interval', async () => {
  let nowMs = 0;
  const waits: number[] = [];
  const clock = {
    now: () => new Date(0),
    monotonicMs: () => nowMs,
    schedule: (ms: number, callback: () => void) => {
      waits.push(ms);
      callback();
      return () => undefined;
    },
  };
  const limiter = new RateLimiter({ qps: 10, burst: 2 }, clock);
  for (let index = 0; index < 4; index++) await limiter.take();
  assert.deepEqual(waits, [100, 200]);
  nowMs = 10_000;
  assert.deepEqual([limiter.tryTake(), limiter.tryTake(), limiter.tryTake()], [true, true, false]);
});

test('a rate limit that lets nothing through is refused', () => {
  for (const limit of [
    { qps: 0, burst: 1 },
    { qps: 1, burst: 0 },
    { qps: Number.NaN, burst: 1 },
  ]) {
    assert.throws(() => new RateLimiter(limit), RangeError);
  }
});

test('lines come out whole, however the bytes are cut', () => {
  const property = fc.property(fc.array(fc.string()), fc.array(fc.nat(20)), (texts, cuts) => {
    const lines = texts.map((text) => text.replace(/\n/g, '')).filter((text) => text.trim() !== '');
    const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
    const splitter = new LineSplitter(10_000);
    const found: string[] = [];
    let from = 0;
    for (const cut of [...cuts, bytes.length]) {
      const to = Math.min(bytes.length, from + cut);
      found.push(...splitter.push(bytes.subarray(from, to)));
      from = to;
    }
    assert.deepEqual(found, lines);
    assert.equal(splitter.pendingBytes, 0);
  });
  fc.assert(property);
});

test('a line over the limit is refused before it is whole', () => {
  const splitter = new LineSplitter(10);
  assert.deepEqual([...splitter.push(Buffer.from('12345'))], []);
  assert.throws(() => [...splitter.push(Buffer.from('678901'))], { code: 'BAD_RESPONSE' });
});
