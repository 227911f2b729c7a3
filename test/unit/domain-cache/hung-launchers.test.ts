import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Domain } from '../../../src/api/index.ts';
import { DomainCache } from '../../../src/domain-cache/index.ts';
import type { NotifyDoors } from '../../../src/domain-cache/notify-doors.ts';
import type { LauncherLink, LauncherLinks, LauncherVerdict } from '../../../src/domain-cache/ports.ts';
import type { RecordFiles } from '../../../src/domain-cache/record-files.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';
import { scriptedDomain } from '../../fixtures/scripted-launcher.ts';

type Mode = 'works' | 'hangs' | 'dead';

const hung = (count: number) => Array.from({ length: count }, (_, index) => `hung-${index}`);
const good = (count: number) => Array.from({ length: count }, (_, index) => `good-${index}`);
const keyOf = (uid: string) => `default/${uid}`;

/** Launchers without sockets: one that hangs answers nothing, ever. */
class FakeLinks implements LauncherLinks {
  readonly modes = new Map<string, Mode>();
  readonly links = new Map<string, LauncherLink>();
  readonly asked: string[] = [];
  readonly inspected: string[] = [];
  cache: DomainCache | undefined;

  async connect(target: Parameters<LauncherLinks['connect']>[0]): Promise<LauncherLink> {
    const { uid } = target;
    if (this.modes.get(uid) === 'hangs') return never();
    const peer = { pid: this.links.size + 1, startTime: '1', uid: 0, gid: 0 };
    const getDomain = (): Promise<Domain | undefined> => {
      this.asked.push(uid);
      return this.modes.get(uid) === 'hangs' ? never() : Promise.resolve(scriptedDomain(keyOf(uid), uid));
    };
    const link = { target, peer, connected: true, getDomain, reconnect: () => undefined };
    await this.cache?.attach(link);
    this.links.set(uid, link);
    return link;
  }

  peek(uid: string): LauncherLink | undefined {
    return this.links.get(uid);
  }

  async inspect({ uid }: { uid: string }): Promise<LauncherVerdict> {
    this.inspected.push(uid);
    return this.modes.get(uid) === 'dead' ? { kind: 'dead', proof: 'it ended' } : { kind: 'alive' };
  }

  onDown(): () => void {
    return () => undefined;
  }

  markUnresponsive(): void {}
}

function never<T>(): Promise<T> {
  return new Promise(() => undefined);
}

const doors: NotifyDoors = {
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
  const links = new FakeLinks();
  for (const uid of uids) links.modes.set(uid, uid.startsWith('hung') ? 'hangs' : 'works');
  const options = { shareDir: '/nowhere', privateDir: '/nowhere', watchdogMs: 11_000, resyncMs: 300_000 };
  const cache = new DomainCache(options, { links, doors, recordFiles: recordsOf(uids), clock });
  links.cache = cache;
  await cache.start();
  await settle();
  const kinds = (of: readonly string[]) => [...new Set(of.map((uid) => cache.view(keyOf(uid), uid).kind))];
  return { cache, clock, links, kinds };
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
    const { clock, links, kinds } = await startCache([...hung(40), 'late']);
    await clock.pass(1_000);
    assert.deepEqual(kinds(['late']), ['present']);
    links.links.delete('late');
    links.modes.set('late', 'dead');
    await clock.pass(12_000);
    assert.deepEqual(kinds(['late']), ['gone'], 'noticed by the look that came after hung ones had begun to be asked');
  });

  it('in the resync: all others are asked, again and again', async () => {
    const { clock, links } = await startCache(good(60));
    for (const uid of good(40)) links.modes.set(uid, 'hangs');
    links.asked.length = 0;
    await clock.pass(301_000);
    await clock.pass(301_000);
    const times = (uid: string) => links.asked.filter((asked) => asked === uid).length;
    for (const uid of good(60).slice(40)) assert.equal(times(uid), 2, uid);
  });

  it('one that is under way is not asked a second time at the same time', async () => {
    const { clock, links } = await startCache(hung(3));
    await clock.pass(60_000);
    assert.equal(links.inspected.length, 3);
  });
});
