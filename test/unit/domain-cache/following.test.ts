import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { Domain } from '../../../src/api/index.ts';
import { DomainCache, type NotifyIntake, type NotifyListeners } from '../../../src/domain-cache/index.ts';
import type { RecordFiles } from '../../../src/host/index.ts';
import { LauncherClients, type LauncherHost, type OpenConnection } from '../../../src/launcher-client/index.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';
import { scriptedDomain } from '../../fixtures/scripted-launcher.ts';

const key = 'default/vm1';
const uid = 'uid-1';
const peer = { pid: 4242, startTime: '1', uid: 107, gid: 107 };
const target = { key, uid, activePods: { 'pod-1': 'node1' } };
const process = { pid: peer.pid, startTime: peer.startTime };

let clock: FakeClock;
/** What was done to the outside, in order. */
let steps: string[];
let files: Map<string, string>;
let isDiskFull: boolean;
let intakes: NotifyIntake[];
let domain: Domain | undefined;
let isAlive: boolean;
/** Who is seen on any socket. */
let listener: typeof peer;
let breakConnection: () => void;
/** While a pipe is opened. */
let onOpen: () => Promise<void>;

const recordFiles: RecordFiles = {
  list: async () => [...files.keys()],
  read: async (name) => files.get(name) ?? '',
  replace: async (name, content) => {
    if (isDiskFull) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
    steps.push('record');
    files.set(name, content);
  },
  remove: async (name) => {
    steps.push('record removed');
    files.delete(name);
  },
  rename: async () => undefined,
};

const listeners: NotifyListeners = {
  start: async () => undefined,
  ensure: async () => undefined,
  stop: async () => undefined,
  open: async (_connection, intake) => {
    steps.push('pipe');
    intakes.push(intake);
    await onOpen();
    return { close: async () => void steps.push('pipe closed') };
  },
  isAlive: () => isAlive,
};

const host: LauncherHost = {
  findSockets: () => ['/pods/pod-1/sock'],
  hasPodDirectory: () => true,
  hasAnyPod: () => true,
  markUnresponsive: () => undefined,
  watch: () => ({ close: () => undefined }),
  probe: async () => (isAlive ? 'listening' : 'refused'),
  probeAndPin: async (socketFile) => {
    if (!isAlive) return { listening: 'refused' };
    const socket = { socketAddress: socketFile, close: () => undefined };
    return { listening: 'listening', found: { socketFile, peer: listener, socket } };
  },
  isProcessAlive: () => isAlive,
  open: async (address, { onDown }) => {
    steps.push('dial');
    const connection = {
      ...{ address, peer, connected: true, closed: false },
      getDomain: async () => {
        steps.push('question');
        return domain;
      },
      reconnect: () => undefined,
      close(): void {
        this.closed = true;
      },
    };
    breakConnection = () => {
      connection.connected = false;
      onDown(connection as unknown as OpenConnection);
    };
    return connection as unknown as OpenConnection;
  },
};

async function begin() {
  const clients = new LauncherClients({ podsDir: '/pods', nodeName: 'node1' }, { host, clock });
  const options = { shareDir: '/nowhere', privateDir: '/nowhere' };
  const cache = new DomainCache(options, { launchers: clients, listeners, recordFiles, clock });
  await cache.start();
  await settle();
  return { clients, cache };
}

beforeEach(() => {
  [clock, steps, files, intakes] = [new FakeClock(), [], new Map(), []];
  [isDiskFull, isAlive, domain, listener] = [false, true, scriptedDomain(key, uid), peer];
  onOpen = async () => undefined;
});

describe('a launcher that is connected to', () => {
  it('has its record first, then its pipe, then the first question, and its domain is known when connect resolves', async () => {
    const { clients, cache } = await begin();
    await clients.connect(target);
    assert.deepEqual(steps, ['record', 'dial', 'pipe', 'record', 'question']);
    assert.deepEqual(cache.ghostRecords.byUid(uid), {
      ...{ namespace: 'default', name: 'vm1', uid, socketFile: '/pods/pod-1/sock' },
      ...process,
    });
    assert.equal(cache.view(key, uid).kind, 'present');
  });

  it('is followed though its record cannot be written: a full disk is a problem to show', async () => {
    const { clients, cache } = await begin();
    isDiskFull = true;
    await clients.connect(target);
    assert.equal(cache.view(key, uid).kind, 'present');
    assert.equal(cache.problemOf(uid)?.code, 'NO_SPACE');
  });

  it('may send its first event before its pipe is complete', async () => {
    const { clients, cache } = await begin();
    const paused = Buffer.from(JSON.stringify(scriptedDomain(key, uid, 'Paused')));
    onOpen = async () => {
      intakes[0]?.domainEvent({ eventType: 'ADDED', domainJSON: paused, statusJSON: Buffer.alloc(0) });
      const view = cache.view(key, uid);
      assert.equal(view.kind === 'present' && view.domain.Status.Status, 'Paused');
    };
    await clients.connect(target);
    assert.equal(intakes.length, 1);
  });

  it('is looked at at once when its connection breaks, and nothing that it sends counts once its end is proven', async () => {
    const { clients, cache } = await begin();
    await clients.connect(target);
    isAlive = false;
    breakConnection();
    await clock.pass(1_000);
    assert.equal(cache.view(key, uid).kind, 'gone');
    assert.equal(steps.at(-1), 'pipe closed');
    const domainJSON = Buffer.from(JSON.stringify(domain));
    intakes[0]?.domainEvent({ eventType: 'MODIFIED', domainJSON, statusJSON: Buffer.alloc(0) });
    assert.equal(cache.view(key, uid).kind, 'gone');
  });
});

describe('a launcher whose VMI is cleaned up', () => {
  it('loses its record at once and its pipe after its last event', async () => {
    const { clients, cache } = await begin();
    await clients.connect(target);
    steps.length = 0;
    await clients.close(key, uid);
    cache.forget(key, uid);
    assert.deepEqual([steps, [...files.keys()]], [['record removed'], []]);
    const last = scriptedDomain(key, uid, 'NoState', 'NonExistent');
    last.ObjectMeta.deletionTimestamp = '2026-01-01T00:00:00Z';
    const domainJSON = Buffer.from(JSON.stringify(last));
    intakes[0]?.domainEvent({ eventType: 'MODIFIED', domainJSON, statusJSON: Buffer.alloc(0) });
    await clock.pass(1_000);
    assert.deepEqual(steps, ['record removed', 'pipe closed']);
    assert.equal(cache.view(key, uid).kind, 'absent');
  });

  it('and that is connected to again has its former pipe closed before the new one is made in its place', async () => {
    const { clients } = await begin();
    await clients.connect(target);
    await clients.close(key, uid);
    steps.length = 0;
    await clients.connect(target);
    await clock.pass(30_000);
    assert.deepEqual(steps, ['record', 'dial', 'pipe closed', 'pipe', 'record', 'question']);
  });

  it('while its pipe is made: nothing of it is left, and no record comes back', async () => {
    const { clients } = await begin();
    let letOpen = () => {};
    onOpen = () =>
      new Promise((resolve) => {
        letOpen = resolve;
      });
    const connecting = assert.rejects(clients.connect(target), { code: 'CLOSED' });
    await settle();
    const draining = clients.close(key, uid);
    await settle();
    letOpen();
    await Promise.all([connecting, draining]);
    await clock.pass(30_000);
    assert.deepEqual([...files.keys()], []);
    assert.equal(steps.at(-1), 'pipe closed');
  });
});

describe('after a start', () => {
  const remember = (name: string) => {
    const record = { namespace: 'default', name, uid: `uid-${name}`, socketFile: '/pods/pod-1/sock', ...process };
    files.set(record.uid, JSON.stringify(record));
  };

  it('all remembered launchers can report before the first of them is dialled, and are asked then', async () => {
    for (const name of ['vm1', 'vm2', 'vm3']) remember(name);
    await begin();
    assert.deepEqual(steps.slice(0, 4), ['pipe', 'pipe', 'pipe', 'dial']);
    assert.deepEqual(
      steps.filter((step) => step !== 'dial').sort(),
      ['pipe', 'pipe', 'pipe', 'question', 'question', 'question'],
      'each has one pipe, and nothing new to be remembered',
    );
  });

  it('what a remembered launcher reports before it was dialled counts', async () => {
    remember('vm1');
    let isDialled = false;
    onOpen = async () => {
      isDialled = steps.includes('dial');
      const paused = Buffer.from(JSON.stringify(scriptedDomain(key, 'uid-vm1', 'Paused')));
      intakes[0]?.domainEvent({ eventType: 'ADDED', domainJSON: paused, statusJSON: Buffer.alloc(0) });
    };
    domain = scriptedDomain(key, 'uid-vm1', 'Paused');
    const { cache } = await begin();
    const view = cache.view(key, 'uid-vm1');
    assert.deepEqual([isDialled, view.kind === 'present' && view.domain.Status.Status], [false, 'Paused']);
  });

  it('another process on the socket of a remembered launcher is not heard before it was dialled', async () => {
    remember('vm1');
    listener = { ...peer, pid: 4343 };
    await begin();
    assert.deepEqual(steps.slice(0, 2), ['dial', 'pipe']);
  });

  it('a remembered launcher is unknown until it was asked, and its process alone proves its end', async () => {
    const record = { namespace: 'default', name: 'vm1', uid, socketFile: '/pods/pod-1/sock', ...process };
    files.set(uid, JSON.stringify(record));
    isAlive = false;
    const { cache } = await begin();
    await clock.pass(1_000);
    assert.equal(cache.view(key, uid).kind, 'gone');
    assert.deepEqual([cache.synced, steps], [true, []], 'it was not dialled');
  });
});
