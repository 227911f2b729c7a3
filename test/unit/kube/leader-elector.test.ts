import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../../src/api/index.ts';
import { orEnded } from '../../../src/base/index.ts';
import { KubeError, LeaderElector } from '../../../src/kube/index.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';

type Client = ConstructorParameters<typeof LeaderElector>[1]['client'];
type Lease = KubeObject & { spec: { holderIdentity: string; leaseTransitions?: number } };

const times = { durationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 };
type Call = { readonly signal?: AbortSignal };
const forever = new AbortController().signal;
const never = () => new Promise<never>(() => undefined);

/** One lease that all processes of a test share; `isSilent`: nothing is answered any more. */
class LeaseServer {
  lease: Lease | undefined;
  isSilent = false;
  #tell: (() => void)[] = [];

  /** A client, whose watch tells of nothing when it is `deaf`. */
  client({ deaf = false } = {}): Client {
    return {
      get: async (_type: unknown, _ref: unknown, call: Call) => this.#answer(call, () => this.lease ?? notFound()),
      create: async (_type: unknown, lease: Lease, call: Call) => this.#answer(call, () => this.put(lease)),
      update: async (_type: unknown, lease: Lease, call: Call) => this.#answer(call, () => this.put(lease)),
      list: async () => ({ items: this.lease ? [structuredClone(this.lease)] : [], resourceVersion: '1' }),
      watch: (_type: unknown, { signal }: { signal: AbortSignal }) => this.#watch(signal, deaf),
    } as unknown as Client;
  }

  put(lease: Lease): Lease {
    const resourceVersion = String(Number(this.lease?.metadata.resourceVersion ?? 1) + 1);
    this.lease = { ...lease, metadata: { ...lease.metadata, uid: 'l', resourceVersion } };
    for (const tell of this.#tell.splice(0)) tell();
    return structuredClone(this.lease);
  }

  async #answer<T>({ signal }: Call, answer: () => T): Promise<T> {
    return this.isSilent ? orEnded(signal ?? forever, never()) : structuredClone(answer());
  }

  async *#watch(signal: AbortSignal, deaf: boolean) {
    const ended = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    while (!signal.aborted) {
      const told = new Promise<void>((resolve) => void this.#tell.push(resolve));
      await Promise.race([deaf ? never() : told, ended]);
      if (!signal.aborted) yield { type: 'MODIFIED', object: structuredClone(this.lease) };
    }
  }
}

function notFound(): never {
  throw new KubeError('NOT_FOUND', 'no lease');
}

function world() {
  const server = new LeaseServer();
  const clock = new FakeClock();
  const elector = (identity: string, how: { deaf?: boolean } = {}) =>
    new LeaderElector({ namespace: 'kubevirt', name: 'l', identity, ...times }, { client: server.client(how), clock });
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 50) {
      clock.advance(Math.min(50, left));
      await settle();
    }
  };
  return { server, clock, elector, pass };
}

test('who does not hold the lease writes nothing; who holds it does until the time to renew it is over', async () => {
  const { clock, elector } = world();
  const leader = elector('a');
  assert.throws(leader.guard, { code: 'NOT_LEADING' });
  await leader.acquire(forever);
  leader.guard();
  // As in a process that was stopped meanwhile: nothing of it has run.
  clock.advance(times.renewDeadlineMs - 1);
  leader.guard();
  clock.advance(1);
  assert.throws(leader.guard, { code: 'NOT_LEADING' });
});

test('a leader whose machine was suspended, so that its monotonic clock stood still, writes nothing; a clock that is set back ends nobody', async () => {
  const { clock, elector } = world();
  const leader = elector('a');
  await leader.acquire(forever);
  clock.jumpWallClock(-3_600_000);
  leader.guard();
  clock.advance(times.renewDeadlineMs - 1);
  leader.guard();
  const other = world();
  const suspended = other.elector('a');
  await suspended.acquire(forever);
  other.clock.jumpWallClock(times.renewDeadlineMs - 1);
  suspended.guard();
  other.clock.jumpWallClock(1);
  assert.throws(suspended.guard, { code: 'NOT_LEADING' });
});

test('an API server that answers nothing any more: the lease is lost when the time to renew it is over, and before another one takes it', async () => {
  const { server, elector, pass } = world();
  const leader = elector('a');
  await leader.acquire(forever);
  const ends: unknown[] = [];
  void leader.hold(forever).then((end) => ends.push(end));
  await pass(6_000);
  leader.guard();
  server.isSilent = true;
  await pass(9_800);
  assert.deepEqual(ends, []);
  await pass(300);
  assert.deepEqual(ends, [{ kind: 'lost', reason: 'it could not be renewed for 10000 ms' }]);
});

test('a lease that names another process is lost at once', async () => {
  const { server, elector, pass } = world();
  const leader = elector('a');
  await leader.acquire(forever);
  const held = leader.hold(forever);
  server.put({ ...(server.lease as Lease), spec: { holderIdentity: 'b' } });
  await pass(2_100);
  assert.deepEqual(await held, { kind: 'lost', reason: 'b holds it' });
  assert.throws(leader.guard, { code: 'NOT_LEADING' });
  assert.equal(server.lease?.spec.holderIdentity, 'b', 'left as it is');
});

test('a lease that is given back is taken at once by who waits for it', async () => {
  const { server, elector, pass } = world();
  const leader = elector('a');
  await leader.acquire(forever);
  const stop = new AbortController();
  const held = leader.hold(stop.signal);
  const waiting = elector('b');
  const acquired = waiting.acquire(forever);
  await pass(3_000);
  stop.abort();
  assert.deepEqual(await held, { kind: 'released' });
  await pass(50);
  await acquired;
  assert.deepEqual([server.lease?.spec.holderIdentity, server.lease?.spec.leaseTransitions], ['b', 1]);
  waiting.guard();
});

for (const deaf of [false, true]) {
  test(`a leader that is gone without a word is replaced when its time is over, ${deaf ? 'also when the watch tells nothing' : 'told by the watch'}`, async () => {
    const { server, elector, pass } = world();
    await elector('a').acquire(forever);
    void elector('b', { deaf }).acquire(forever);
    await pass(14_900);
    assert.equal(server.lease?.spec.holderIdentity, 'a');
    await pass(300);
    assert.equal(server.lease?.spec.holderIdentity, 'b');
  });
}
