import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EventObject } from '../../../src/api/index.ts';
import { EventRecorder, type EventRecorderOptions, KubeError } from '../../../src/kube/index.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';

type Client = ConstructorParameters<typeof EventRecorder>[1]['client'];

/** Keeps what is written; `fail` answers the next calls. */
function fakeClient(...fail: KubeError[]) {
  const created: EventObject[] = [];
  const patched: { name: string; body: unknown }[] = [];
  const client = {
    async create(_type: unknown, object: EventObject) {
      const error = fail.shift();
      if (error) throw error;
      created.push(object);
      return object;
    },
    async patch(_type: unknown, ref: { name: string }, body: unknown) {
      const error = fail.shift();
      if (error) throw error;
      patched.push({ name: ref.name, body });
      return {};
    },
  } as unknown as Client;
  return { client, created, patched };
}

const subject = (name = 'vm1') => ({
  apiVersion: 'kubevirt.io/v1',
  kind: 'VirtualMachineInstance',
  metadata: { name, namespace: 'default', uid: `uid-${name}`, resourceVersion: '7', labels: { secret: 'no' } },
});

function makeRecorder(client: Client, options: Partial<EventRecorderOptions> = {}): EventRecorder {
  return new EventRecorder({ component: 'virt-handler', host: 'node1', ...options }, { client });
}

test('an event tells who saw what about which object', async () => {
  const { client, created } = fakeClient();
  const recorder = makeRecorder(client);
  recorder.record(subject(), 'Warning', 'SyncFailed', 'no disk');
  await recorder.stop();
  const [event] = created;
  assert.deepEqual(event?.involvedObject, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    namespace: 'default',
    name: 'vm1',
    uid: 'uid-vm1',
    resourceVersion: '7',
  });
  assert.match(event?.metadata.name ?? '', /^vm1\.[0-9a-f]{15,16}$/);
  assert.deepEqual([event?.type, event?.reason, event?.message, event?.count], ['Warning', 'SyncFailed', 'no disk', 1]);
  assert.deepEqual(event?.source, { component: 'virt-handler', host: 'node1' });
});

test('a repeated event raises the count of the first one', async () => {
  const { client, created, patched } = fakeClient();
  const recorder = makeRecorder(client);
  for (let index = 0; index < 3; index++) recorder.record(subject(), 'Normal', 'Started', 'up');
  recorder.record(subject(), 'Normal', 'Started', 'up again');
  await recorder.stop();
  assert.equal(created.length, 2);
  assert.deepEqual(
    patched.map(({ body }) => (body as { count: number }).count),
    [2, 3],
  );
  assert.equal(patched[0]?.name, created[0]?.metadata.name);
});

test('an event that has expired meanwhile is made anew', async () => {
  const { client, created } = fakeClient();
  const recorder = makeRecorder(client);
  recorder.record(subject(), 'Normal', 'Started', 'up');
  await recorder.flush();
  const gone = fakeClient(new KubeError('NOT_FOUND', 'gone'));
  Object.assign(client, gone.client);
  recorder.record(subject(), 'Normal', 'Started', 'up');
  await recorder.stop();
  assert.equal(created.length + gone.created.length, 2);
});

test('one object has 25 events at once and the next after its time; others have their own', async () => {
  let nowMs = 0;
  const clock = { now: () => new Date(0), monotonicMs: () => nowMs, schedule: () => () => undefined };
  const { client, created } = fakeClient();
  const recorder = new EventRecorder({ component: 'x' }, { client, clock });
  for (let index = 0; index < 40; index++) recorder.record(subject('noisy'), 'Normal', 'R', `m${index}`);
  recorder.record(subject('quiet'), 'Normal', 'R', 'hello');
  await recorder.flush();
  assert.equal(created.length, 26);
  assert.equal(recorder.dropped, 15);
  nowMs = 300_000;
  recorder.record(subject('noisy'), 'Normal', 'R', 'later');
  recorder.record(subject('noisy'), 'Normal', 'R', 'too soon');
  await recorder.flush();
  assert.equal(created.length, 27);
});

test('an API that refuses an event loses it and gets the next one', async () => {
  const { client, created } = fakeClient(new KubeError('FORBIDDEN', 'no'));
  const recorder = makeRecorder(client);
  recorder.record(subject(), 'Normal', 'Lost', 'x');
  recorder.record(subject(), 'Normal', 'Kept', 'x');
  await recorder.stop();
  assert.deepEqual(
    created.map(({ reason }) => reason),
    ['Kept'],
  );
});

test('an API that is away gets the events in order when it is back, also when an answer of it was lost', async () => {
  const { client, created } = fakeClient(
    new KubeError('UNREACHABLE', 'down'),
    new KubeError('SERVER_ERROR', 'not yet'),
    new KubeError('ALREADY_EXISTS', 'its answer was lost'),
  );
  const clock = new FakeClock();
  const recorder = new EventRecorder({ component: 'virt-handler' }, { client, clock });
  for (const reason of ['First', 'Second']) recorder.record(subject(), 'Normal', reason, 'x');
  await clock.pass(2_000);
  await recorder.stop();
  assert.deepEqual(
    created.map(({ reason }) => reason),
    ['Second'],
    'the first one is there already',
  );
});

test('an API that stays away is given up after a dozen tries, and the next event has its own', async () => {
  const { client, created } = fakeClient(...Array.from({ length: 12 }, () => new KubeError('TIMEOUT', 'silence')));
  const clock = new FakeClock();
  const recorder = new EventRecorder({ component: 'virt-handler' }, { client, clock });
  for (const reason of ['Lost', 'Kept']) recorder.record(subject(), 'Normal', reason, 'x');
  await clock.pass(10 * 60_000);
  await recorder.stop();
  assert.deepEqual(
    created.map(({ reason }) => reason),
    ['Kept'],
  );
});

test('a full queue drops the oldest', async () => {
  const { client, created } = fakeClient();
  const recorder = makeRecorder(client, { queueSize: 3, burst: 100 });
  for (let index = 0; index < 10; index++) recorder.record(subject(), 'Normal', 'R', `m${index}`);
  await recorder.stop();
  assert.deepEqual(
    created.map(({ message }) => message),
    ['m0', 'm7', 'm8', 'm9'],
  );
});

test('stop gives up after its time, when the API hangs', async () => {
  const hanging = {
    create: (_t: unknown, _o: unknown, options: { signal?: AbortSignal }) =>
      new Promise((_, reject) => options.signal?.addEventListener('abort', () => reject(options.signal?.reason))),
  } as unknown as Client;
  const recorder = makeRecorder(hanging);
  recorder.record(subject(), 'Normal', 'R', 'x');
  const startedMs = performance.now();
  await recorder.stop(50);
  assert.ok(performance.now() - startedMs < 1_000);
  recorder.record(subject(), 'Normal', 'R', 'after the end');
});

test('an overlong message is cut', async () => {
  const { client, created } = fakeClient();
  const recorder = makeRecorder(client);
  recorder.record(subject(), 'Normal', 'R', 'x'.repeat(5000));
  await recorder.stop();
  assert.equal(created[0]?.message.length, 1024);
});

/** A recorder beside work that is more urgent until `rest` is called. */
function besideWork() {
  const clock = new FakeClock();
  const { client, created } = fakeClient();
  let rest = () => {};
  const quiet = new Promise<void>((resolve) => {
    rest = resolve;
  });
  const recorder = new EventRecorder({ component: 'virt-handler' }, { client, clock, whenQuiet: () => quiet });
  return { clock, created, recorder, rest };
}

test('events give way to more urgent work, in order, and come when that is done', async () => {
  const { created, recorder, rest, clock } = besideWork();
  recorder.record(subject(), 'Normal', 'Created', 'defined');
  recorder.record(subject(), 'Normal', 'Started', 'started');
  await settle();
  assert.equal(created.length, 0);
  rest();
  await settle();
  assert.deepEqual(
    created.map(({ reason }) => reason),
    ['Created', 'Started'],
  );
  assert.equal(clock.timers, 0);
  await recorder.stop();
});

test('an event waits for other work for two seconds, however long that lasts, and tells its own time', async () => {
  const { created, recorder, clock } = besideWork();
  const reported = clock.now().toISOString().slice(0, 19);
  recorder.record(subject(), 'Normal', 'Created', 'defined');
  await clock.pass(1_999);
  assert.equal(created.length, 0);
  await clock.pass(1);
  assert.equal(created.length, 1);
  assert.equal(created[0]?.firstTimestamp?.slice(0, 19), reported);
  await recorder.stop();
});

test('a flush makes no event wait for other work, and later ones give way again', async () => {
  const { created, recorder, clock } = besideWork();
  recorder.record(subject(), 'Normal', 'Created', 'defined');
  await recorder.flush();
  assert.equal(created.length, 1);
  recorder.record(subject(), 'Normal', 'Started', 'started');
  await settle();
  assert.equal(created.length, 1);
  await recorder.stop();
  assert.deepEqual([created.length, clock.timers], [2, 0]);
});

test('several writers: events about one object come in order, and one that hangs delays no other object', async () => {
  const written: string[] = [];
  const hanging: (() => void)[] = [];
  const client = {
    create: async (_type: unknown, { involvedObject, reason }: EventObject) => {
      if (involvedObject.name === 'slow') await new Promise<void>((resolve) => void hanging.push(resolve));
      written.push(`${involvedObject.name} ${reason}`);
    },
  } as unknown as Client;
  const recorder = makeRecorder(client, { writers: 3 });
  for (const name of ['slow', 'a', 'b', 'c', 'd']) {
    for (const reason of ['First', 'Second', 'Third']) recorder.record(subject(name), 'Normal', reason, '');
  }
  await settle();
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((name) => written.filter((each) => each.startsWith(name))),
    ['a', 'b', 'c', 'd'].map((name) => [`${name} First`, `${name} Second`, `${name} Third`]),
  );
  assert.equal(recorder.waiting, 3);
  for (let left = 3; left > 0; left--) {
    await settle();
    assert.equal(hanging.length, 1, 'one at a time');
    hanging.pop()?.();
  }
  await recorder.stop();
  assert.deepEqual(written.slice(-3), ['slow First', 'slow Second', 'slow Third']);
});
