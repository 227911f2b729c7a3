import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../../src/api/index.ts';
import { type CachedObjects, ReadYourWrites, type ReadYourWritesOptions } from '../../../src/reconcile/index.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

interface Pod extends KubeObject {
  spec?: { nodeName?: string };
}

const key = 'default/pod1';

const at = (resourceVersion: string, uid = 'uid-1', more: Partial<Pod> = {}): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'pod1', namespace: 'default', uid, resourceVersion },
  ...more,
});

const leaving = (resourceVersion: string): Pod => {
  const pod = at(resourceVersion);
  return { ...pod, metadata: { ...pod.metadata, deletionTimestamp: '2026-01-02T03:00:00Z' } };
};

/** A watch that a test plays. */
function watched(first: Pod | undefined, options: ReadYourWritesOptions = {}) {
  let shown: Pod | undefined = first;
  const listeners = new Set<(key: string) => void>();
  const cache: CachedObjects<Pod> = {
    synced: true,
    get: () => shown,
    keys: () => (shown ? [key] : []),
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const writes = new ReadYourWrites(cache, options);
  const woken: string[] = [];
  const end = writes.onChange((each) => woken.push(each));
  const publish = (pod: Pod | undefined) => {
    shown = pod;
    for (const listener of listeners) listener(key);
  };
  return { writes, woken, publish, end, listeners, version: () => writes.get(key)?.metadata.resourceVersion };
}

function watchedWithTime(first: Pod | undefined) {
  const clock = new FakeClock();
  return { clock, ...watched(first, { giveUp: { afterMs: 10_000, clock } }) };
}

test('of two own writes in a row the echo of the first neither hides the second nor wakes anything', () => {
  const { writes, woken, publish, version } = watched(at('101'));
  writes.saw(key, at('101'), at('102'));
  writes.saw(key, at('102'), at('103'));
  publish(at('102'));
  assert.deepEqual([version(), woken], ['103', []]);
  publish(at('103'));
  assert.deepEqual([version(), woken], ['103', []]);
});

test('what others write after the own write is shown and wakes', () => {
  const { writes, woken, publish, version } = watched(at('99'));
  writes.saw(key, at('99'), at('100'));
  publish(at('101'));
  assert.deepEqual([version(), woken], ['101', [key]]);
});

test('an object that is gone, or another of the same name, is not hidden by an own write', () => {
  const { writes, woken, publish, version } = watched(at('101'));
  writes.saw(key, at('101'), at('105'));
  publish(at('104', 'uid-2'));
  assert.deepEqual([version(), woken], ['104', [key]]);
  writes.saw(key, at('104', 'uid-2'), at('106', 'uid-2'));
  publish(undefined);
  assert.deepEqual([version(), woken], [undefined, [key, key]]);
});

test('while others write again and again the own write among theirs is the newest that is known', () => {
  const { writes, woken, publish, version } = watched(at('101'));
  publish(at('103'));
  writes.saw(key, at('101'), at('105'));
  assert.equal(version(), '105');
  publish(at('104'));
  assert.deepEqual([version(), woken], ['105', [key]]);
});

test('the echo that comes before the answer to the write wakes nothing', async () => {
  const { writes, woken, publish, version } = watched(at('101'));
  await writes.whileWriting(key, async () => {
    publish(at('102'));
    writes.saw(key, at('101'), at('102'));
  });
  assert.deepEqual([version(), woken], ['102', []]);
  publish(at('103'));
  assert.deepEqual(woken, [key], 'and what others write later does');
});

test('what others write while a write is under way wakes once it has ended, whatever came of the write', async () => {
  const { writes, woken, publish } = watched(at('101'));
  await writes.whileWriting(key, async () => {
    writes.saw(key, at('101'), at('102'));
    publish(at('103'));
    assert.deepEqual(woken, []);
  });
  assert.deepEqual(woken, [key]);
  const failing = writes.whileWriting(key, async () => {
    publish(at('104'));
    throw new Error('the API server is away');
  });
  await assert.rejects(failing);
  assert.deepEqual(woken, [key, key]);
});

test('a write that was put on what others wrote wakes, also when the watch is slow: no reconcile has decided on that', async () => {
  const { writes, woken, publish } = watched(at('101'));
  await writes.whileWriting(key, async () => {
    writes.saw(key, at('101'), at('102'));
    writes.saw(key, at('101'), at('103'));
  });
  publish(at('102'));
  publish(at('103'));
  assert.deepEqual(woken, [key]);
});

test('where a reconcile goes on from its echo, that wakes, too', async () => {
  const { writes, woken, publish, version } = watched(at('101'), { wakeOnEcho: true });
  writes.saw(key, at('101'), at('102'));
  assert.equal(version(), '102');
  publish(at('102'));
  await writes.whileWriting(key, async () => {
    publish(at('103'));
    writes.saw(key, at('102'), at('103'));
  });
  assert.deepEqual(woken, [key, key]);
});

test('what was created is there before the watch shows it, with what was written to it since', () => {
  const { clock, writes, woken, publish, version } = watchedWithTime(undefined);
  writes.created(key, at('101'));
  assert.deepEqual([version(), writes.pending(key), [...writes.keys()]], ['101', 'create', [key]]);
  writes.saw(key, at('101'), at('103'));
  assert.deepEqual([version(), writes.list().length], ['103', 1]);
  publish(at('101'));
  assert.deepEqual([writes.pending(key), woken, clock.timers], [undefined, [key], 0]);
});

test('what was created in the place of an older one of its name is not hidden by that one', () => {
  const { writes, publish, version } = watchedWithTime(at('90', 'old'));
  writes.created(key, at('101'));
  publish(at('95', 'old'));
  assert.equal(version(), '101');
  publish(at('120', 'next'));
  assert.equal(version(), '120');
});

test('what the watch shows already when the answer to its creation comes is not noted', () => {
  const { clock, writes } = watchedWithTime(at('101'));
  writes.created(key, at('101'));
  writes.deleted(key, at('90', 'old'));
  writes.assumed(key, at('101', 'uid-1', { spec: { nodeName: 'n1' } }), () => true);
  assert.deepEqual([writes.pending(key), clock.timers], [undefined, 0]);
});

test('a creation that no watch ever shows is given up, and its key is woken', () => {
  const { clock, writes, woken, version } = watchedWithTime(undefined);
  writes.created(key, at('101'));
  clock.advance(9_999);
  assert.deepEqual([version(), woken], ['101', []]);
  clock.advance(1);
  assert.deepEqual([version(), woken, [...writes.keys()]], [undefined, [key], []]);
});

test('an own update is kept for as long as the watch shows the time before it, also below a deletion that is given up', () => {
  const { clock, writes, publish, version } = watchedWithTime(at('101'));
  writes.saw(key, at('101'), at('102'));
  clock.advance(3_600_000);
  assert.equal(version(), '102');
  writes.deleted(key, at('102'));
  clock.advance(3_600_000);
  assert.deepEqual([version(), writes.pending(key)], ['102', 'update']);
  publish(at('103'));
  assert.deepEqual([version(), writes.pending(key)], ['103', undefined]);
});

test('the late answer to an older write of another reconcile does not take back what is known since', () => {
  const { writes, version } = watched(at('101'));
  writes.saw(key, at('101'), at('105'));
  writes.saw(key, at('101'), at('103'));
  assert.equal(version(), '105');
});

for (const [what, shown] of [
  ['its deletion', leaving('102')],
  ['nothing in its place', undefined],
  ['another of its name', at('105', 'uid-2')],
] as const) {
  test(`what was deleted is on its way out until the watch shows ${what}`, () => {
    const { clock, writes, woken, publish, version } = watchedWithTime(at('101'));
    writes.deleted(key, at('101'));
    assert.deepEqual([version(), writes.pending(key)], ['101', 'delete']);
    publish(at('101'));
    assert.deepEqual([writes.pending(key), woken], ['delete', []]);
    publish(shown);
    assert.deepEqual([writes.pending(key), woken, clock.timers], [undefined, [key], 0]);
  });
}

test('what is assumed holds while the watch shows other changes of the same object only', () => {
  const bound = at('101', 'uid-1', { spec: { nodeName: 'n1' } });
  const { writes, publish } = watchedWithTime(at('101'));
  const node = () => writes.get(key)?.spec?.nodeName;
  writes.assumed(key, bound, ({ spec }) => spec?.nodeName !== undefined);
  publish(at('102'));
  assert.deepEqual([node(), writes.pending(key)], ['n1', 'assumed']);
  publish(at('103', 'uid-1', { spec: { nodeName: 'n2' } }));
  assert.deepEqual([node(), writes.pending(key)], ['n2', undefined]);
  writes.assumed(key, at('103', 'uid-1', { spec: { nodeName: 'n3' } }), ({ spec }) => spec?.nodeName === 'n3');
  publish(at('104', 'uid-2'));
  assert.equal(node(), undefined);
});

test('without a time to give it up only an update may be noted', () => {
  const { writes } = watched(undefined);
  assert.throws(() => writes.created(key, at('101')), /needs a time after which it is given up/);
});

test('all listeners hear of the same news, and the cache is followed for as long as there is one', () => {
  const { writes, woken, publish, end, listeners } = watched(at('101'));
  const second: string[] = [];
  const endSecond = writes.onChange((each) => second.push(each));
  writes.saw(key, at('101'), at('102'));
  publish(at('102'));
  publish(at('103'));
  assert.deepEqual([woken, second], [[key], [key]]);
  end();
  assert.equal(listeners.size, 1);
  endSecond();
  assert.equal(listeners.size, 0);
});

test('an overlay that is cleared leaves no timer', () => {
  const { clock, writes } = watchedWithTime(undefined);
  writes.created(key, at('101'));
  writes.clear();
  assert.deepEqual([clock.timers, writes.pending(key)], [0, undefined]);
});

test('a subscription that ends while news is passed on does not hear of it, and each subscription is one of its own', () => {
  const { writes, publish, listeners } = watched(at('101'));
  const heard: string[] = [];
  const twice = () => void heard.push('twice');
  const first = writes.onChange(() => second());
  const second = writes.onChange(() => void heard.push('ended'));
  const others = [writes.onChange(twice), writes.onChange(twice)];
  publish(at('102'));
  assert.deepEqual(heard, ['twice', 'twice']);
  for (const end of [first, ...others]) end();
  assert.equal(listeners.size, 1, 'the subscription of the fixture is left');
});

test('what others wrote below an own write, and no reconcile decided on, wakes with the echo', async () => {
  const { writes, woken, publish } = watched(at('9'));
  await writes.whileWriting(key, async () => {
    publish(at('10'));
    writes.saw(key, at('9'), at('11'));
  });
  publish(at('11'));
  assert.deepEqual(woken, [key], 'shown before the answer');
  writes.saw(key, at('11'), at('13'));
  publish(at('12'));
  publish(at('13'));
  assert.deepEqual(woken, [key, key], 'shown after it');
  await writes.whileWriting(key, async () => {
    publish(at('14'));
    publish(at('15'));
    writes.saw(key, at('13'), at('15'));
  });
  assert.deepEqual(woken, [key, key, key], 'both shown before the answer');
});

test('a patch that tests nothing wakes with its echo, also where the watch does not show what was below it', async () => {
  const { writes, woken, publish } = watched(at('9'));
  writes.patched(key, at('9'), at('11'));
  publish(at('11'));
  assert.deepEqual(woken, [key]);
  await writes.whileWriting(key, async () => {
    publish(at('13'));
    writes.patched(key, at('11'), at('13'));
  });
  assert.deepEqual(woken, [key, key]);
});

test('what was created and updated in the place of an older one of its name outlives the deletion of that one', () => {
  const { writes, publish, version } = watchedWithTime(at('10', 'old'));
  writes.created(key, at('20'));
  writes.saw(key, at('20'), at('21'));
  publish(undefined);
  assert.deepEqual([version(), writes.pending(key)], ['21', 'create']);
});

test('what is deleted is read as the own update before its deletion left it, until the watch shows something newer', () => {
  const { writes, publish, version } = watchedWithTime(at('10'));
  writes.saw(key, at('10'), at('11'));
  writes.deleted(key, at('11'));
  assert.deepEqual([version(), writes.pending(key)], ['11', 'delete']);
  publish(at('12'));
  assert.deepEqual([version(), writes.pending(key)], ['12', 'delete']);
});

test('the late answer of an update does not take back a deletion', () => {
  const { clock, writes, publish, version } = watchedWithTime(at('10'));
  writes.deleted(key, at('10'));
  writes.saw(key, at('10'), at('11'));
  assert.deepEqual([version(), writes.pending(key), clock.timers], ['11', 'delete', 1]);
  publish(undefined);
  assert.deepEqual([version(), writes.pending(key), clock.timers], [undefined, undefined, 0]);
});

test('a write that changed nothing has no echo and is not waited for', () => {
  const { writes, publish, version } = watched(at('10'));
  writes.saw(key, at('10'), at('10'));
  assert.equal(writes.pending(key), undefined);
  writes.saw(key, at('10'), at('11'));
  writes.saw(key, at('11'), at('11'));
  publish(at('10'));
  assert.deepEqual([version(), writes.pending(key)], ['11', 'update']);
});

test('what is assumed of an object that only an own creation shows holds, and both end with their echoes', () => {
  const bound = at('20', 'uid-1', { spec: { nodeName: 'n1' } });
  const { clock, writes, woken, publish } = watchedWithTime(undefined);
  const node = () => writes.get(key)?.spec?.nodeName;
  writes.created(key, at('20'));
  writes.assumed(key, bound, ({ spec }) => spec?.nodeName !== undefined);
  assert.deepEqual([node(), writes.pending(key), [...writes.keys()]], ['n1', 'create', [key]]);
  publish(at('20'));
  assert.deepEqual([node(), writes.pending(key), woken], ['n1', 'assumed', [key]]);
  publish(undefined);
  assert.deepEqual([node(), writes.pending(key), clock.timers], [undefined, undefined, 0]);
});
