import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import fc from 'fast-check';
import { resources } from '../../../src/api/index.ts';
import { fieldSelector, objectPath, RateLimiter } from '../../../src/kube/index.ts';
import { LineSplitter } from '../../../src/kube/watch.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

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
  const clock = new FakeClock();
  const startMs = clock.monotonicMs();
  const limiter = new RateLimiter({ qps: 10, burst: 2 }, clock);
  const taken: number[] = [];
  for (let index = 0; index < 4; index++) void limiter.take().then(() => taken.push(clock.monotonicMs() - startMs));
  await clock.pass(10_000);
  assert.deepEqual(taken, [0, 0, 100, 200]);
  assert.deepEqual([limiter.tryTake(), limiter.tryTake(), limiter.tryTake()], [true, true, false]);
  assert.equal(clock.timers, 0);
});

test('who can wait goes behind all others, but for every fourth turn', async () => {
  const clock = new FakeClock();
  const limiter = new RateLimiter({ qps: 10, burst: 1 }, clock);
  const taken: string[] = [];
  const take = (name: string, later: boolean) => void limiter.take({ later }).then(() => taken.push(name));
  for (const name of ['told 1', 'told 2', 'told 3', 'told 4']) take(name, true);
  for (const name of ['a', 'b', 'c', 'd', 'e']) take(name, false);
  await clock.pass(1_000);
  assert.deepEqual(taken, ['told 1', 'a', 'b', 'c', 'told 2', 'd', 'e', 'told 3', 'told 4']);
});

test('who no longer waits takes no turn, and a new limit is for those who wait', async () => {
  const clock = new FakeClock();
  const limiter = new RateLimiter({ qps: 0.001, burst: 1 }, clock);
  const leaving = new AbortController();
  const taken: string[] = [];
  await limiter.take();
  const left = limiter.take({ signal: leaving.signal });
  void limiter.take().then(() => taken.push('stays'));
  leaving.abort(new Error('left'));
  await assert.rejects(left, /left/);
  await assert.rejects(limiter.take({ signal: leaving.signal }), /left/);
  await clock.pass(1_000);
  assert.deepEqual(taken, []);
  limiter.setLimit({ qps: 10, burst: 1 });
  await clock.pass(100);
  assert.deepEqual(taken, ['stays']);
  assert.equal(getEventListeners(leaving.signal, 'abort').length, 0);
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
