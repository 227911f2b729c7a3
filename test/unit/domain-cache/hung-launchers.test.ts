import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Domain, LauncherTarget } from '../../../src/api/index.ts';
import { DomainCache, type Launchers, type NotifyListeners } from '../../../src/domain-cache/index.ts';
import type { RecordFiles } from '../../../src/host/index.ts';
import type { LauncherSubscriber, Liveness, OpenConnection } from '../../../src/launcher-client/index.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';
import { scriptedDomain } from '../../fixtures/scripted-launcher.ts';

type Mode = 'works' | 'hangs' | 'dead';

const hung = (count: number) => Array.from({ length: count }, (_, index) => `hung-${index}`);
const good = (count: number) => Array.from({ length: count }, (_, index) => `good-${index}`);
const keyOf = (uid: string) => `default/${uid}`;

/** Launchers without sockets: one that hangs answers nothing, ever. */
class FakeLaunchers implements Launchers {
  readonly modes = new Map<string, Mode>();
  readonly connections = new Map<string, OpenConnection>();
  readonly asked: string[] = [];
  readonly inspected: string[] = [];
  #subscriber: LauncherSubscriber | undefined;

  subscribe(subscriber: LauncherSubscriber): () => void {
    this.#subscriber = subscriber;
    return () => undefined;
  }

  async connect({ key, uid }: LauncherTarget): Promise<OpenConnection> {
    if (this.modes.get(uid) === 'hangs') return never();
    const peer = { pid: this.connections.size + 1, startTime: '1', uid: 0, gid: 0 };
    const getDomain = (): Promise<Domain | undefined> => {
      this.asked.push(uid);
      return this.modes.get(uid) === 'hangs' ? never() : Promise.resolve(scriptedDomain(keyOf(uid), uid));
    };
    const address = { key, uid, socketFile: `/pods/${uid}/launcher-sock` };
    const connection = { address, peer, connected: true, getDomain, reconnect: () => undefined };
    await this.#subscriber?.onConnected(connection as unknown as OpenConnection);
    this.connections.set(uid, connection as unknown as OpenConnection);
    return connection as unknown as OpenConnection;
  }

  peek(uid: string): OpenConnection | undefined {
    return this.connections.get(uid);
  }

  async inspect({ uid }: { uid: string }): Promise<Liveness> {
    this.inspected.push(uid);
    return this.modes.get(uid) === 'dead' ? { kind: 'dead', proof: 'it ended' } : { kind: 'alive' };
  }

  /** Its process is in no record, so there is nobody to be heard. */
  async listenerOf(): Promise<undefined> {}

  markUnresponsive(): void {}
}

function never<T>(): Promise<T> {
  return new Promise(() => undefined);
}

const listeners: NotifyListeners = {
  start: async () => undefined,
  ensure: async () => undefined,
  stop: async () => undefined,
  open: async () => ({ close: async () => undefined }),
  isAlive: () => true,
};

function recordsOf(uids: readonly string[]): RecordFiles {
  const record = (uid: string) => ({ name: uid, namespace: 'default', uid, socketFile: `/pods/${uid}/launcher-sock` });
  return {
    list: async () => [...uids],
    read: async (uid) => JSON.stringify(record(uid)),
    replace: async () => undefined,
    remove: async () => undefined,
    rename: async () => undefined,
  };
}

/** An agent that starts on a node with these launchers, of which those named `hung-` answer nothing. */
async function startCache(uids: readonly string[]) {
  const clock = new FakeClock();
  const launchers = new FakeLaunchers();
  for (const uid of uids) launchers.modes.set(uid, uid.startsWith('hung') ? 'hangs' : 'works');
  const options = { shareDir: '/nowhere', privateDir: '/nowhere', watchdogMs: 11_000, resyncMs: 300_000 };
  const cache = new DomainCache(options, { launchers, listeners, recordFiles: recordsOf(uids), clock });
  await cache.start();
  await settle();
  const kinds = (of: readonly string[]) => [...new Set(of.map((uid) => cache.view(keyOf(uid), uid).kind))];
  return { cache, clock, launchers, kinds };
}

describe('launchers that hang hold nothing that others need', () => {
  it('at the start ten among 400 delay nobody: no timer has passed when all others are known', async () => {
    const { kinds } = await startCache([...hung(10), ...good(390)]);
    assert.deepEqual([kinds(good(390)), kinds(hung(10))], [['present'], ['unknown']]);
  });

  it('at the start more than are asked side by side cost half a second', async () => {
    const { kinds, clock, cache } = await startCache([...hung(60), ...good(340)]);
    assert.deepEqual(kinds(good(340)), ['unknown']);
    await clock.pass(1_000);
    assert.deepEqual(kinds(good(340)), ['present']);
    assert.equal(cache.synced, false, 'those that hang are not asked to the end');
  });

  it('in the watchdog: its next look at others does not wait for them', async () => {
    const { clock, launchers, kinds } = await startCache([...hung(40), 'late']);
    await clock.pass(1_000);
    assert.deepEqual(kinds(['late']), ['present']);
    launchers.connections.delete('late');
    launchers.modes.set('late', 'dead');
    await clock.pass(12_000);
    assert.deepEqual(kinds(['late']), ['gone'], 'noticed by the look that came after hung ones had begun to be asked');
  });

  it('in the resync: all others are asked, again and again', async () => {
    const { clock, launchers } = await startCache(good(60));
    for (const uid of good(40)) launchers.modes.set(uid, 'hangs');
    launchers.asked.length = 0;
    await clock.pass(301_000);
    await clock.pass(301_000);
    const times = (uid: string) => launchers.asked.filter((asked) => asked === uid).length;
    for (const uid of good(60).slice(40)) assert.equal(times(uid), 2, uid);
  });

  it('one that is under way is not asked a second time at the same time', async () => {
    const { clock, launchers } = await startCache(hung(3));
    await clock.pass(60_000);
    assert.equal(launchers.inspected.length, 3);
  });
});
