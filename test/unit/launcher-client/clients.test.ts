import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { errorCode } from '../../../src/base/index.ts';
import { LauncherClients, type LauncherHost, type OpenConnection } from '../../../src/launcher-client/index.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';

const process = { pid: 4242, startTime: '1', uid: 0, gid: 0 };
const targetOf = (uid = 'uid-1') => ({ key: `default/${uid}`, uid, activePods: { [uid]: 'node1' } });

let clock: FakeClock;
let calls: string[];
let sockets: string[];
let watches: Set<string>;
/** Resolves the probes that wait. */
let answers: ((listening: 'listening' | 'refused') => void)[];
let isProcessAlive: boolean;
let isPeerKnown: boolean;
/** Of the ghost record. */
let refusal: Error | undefined;
/** Sockets that are held open. */
let pinned: Set<string>;
let opened: { connected: boolean; closed: boolean }[];

function clientsOf(): LauncherClients {
  const host: LauncherHost = {
    findSockets: ({ uid }) => sockets.filter((socket) => socket.includes(uid)),
    hasPodDirectory: () => true,
    hasAnyPod: () => true,
    markUnresponsive: () => undefined,
    watch: ({ uid }) => {
      watches.add(uid);
      return { close: () => void watches.delete(uid) };
    },
    probe: () => new Promise((resolve) => answers.push(resolve)),
    probeAndPin: async (socketFile) => {
      const listening = await host.probe(socketFile);
      if (listening !== 'listening' || !isPeerKnown) return { listening };
      pinned.add(socketFile);
      const socket = { socketAddress: socketFile, close: () => void pinned.delete(socketFile) };
      return { listening, found: { socketFile, peer: process, socket } };
    },
    isProcessAlive: () => isProcessAlive,
    open: async (address, _deps, probed) => {
      calls.push(probed ? 'open what was probed' : 'open');
      const connection = {
        address,
        peer: process,
        connected: true,
        closed: false,
        close(): void {
          this.closed = true;
        },
      };
      opened.push(connection);
      return connection as unknown as OpenConnection;
    },
  };
  const clients = new LauncherClients({ podsDir: '/pods', nodeName: 'node1' }, { host, clock });
  clients.subscribe({
    onConnecting: async ({ uid, process }) => {
      if (refusal) throw refusal;
      calls.push(`connecting to ${uid}${process ? ` of process ${process.pid}` : ''}`);
    },
    onConnected: async () => void calls.push('connected'),
    onBroken: () => undefined,
    onDraining: async (_key, uid) => void calls.push(`draining ${uid}`),
  });
  return clients;
}

/** Somebody who asks for the connection after it broke, and waits for the probe; `late`: what comes of it. */
async function lateCaller() {
  sockets = ['/pods/uid-1/sock'];
  const clients = clientsOf();
  await clients.connect(targetOf());
  const [connection] = opened;
  assert.ok(connection);
  connection.connected = false;
  const late = clients.connect(targetOf()).then(
    () => 'connected',
    (error: unknown) => errorCode(error),
  );
  return { clients, late };
}

/** Every question is answered with a refusal until `done`. */
async function refuseAll(done: Promise<unknown>): Promise<void> {
  let isDone = false;
  const end = done.finally(() => {
    isDone = true;
  });
  while (!isDone) {
    for (const answer of answers.splice(0)) answer('refused');
    clock.advance(50);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await end;
}

beforeEach(() => {
  clock = new FakeClock();
  [calls, sockets, answers, opened, watches] = [[], [], [], [], new Set()];
  [isProcessAlive, isPeerKnown, refusal, pinned] = [true, true, undefined, new Set()];
});

describe('what is kept of launchers', () => {
  it('the pid of a launcher that ended is nobody’s, though others hold its connection', async () => {
    sockets = ['/pods/uid-1/sock'];
    const clients = clientsOf();
    assert.equal(await clients.launcherPid(targetOf()), process.pid);
    isProcessAlive = false;
    await assert.rejects(clients.launcherPid(targetOf()), { code: 'NO_PEER' });
    clients.stop();
  });

  it('a caller that comes while the VMI is cleaned up gets no connection, and nothing is remembered again', async () => {
    const { clients, late } = await lateCaller();
    await clients.close('default/uid-1', 'uid-1');
    for (const answer of answers.splice(0)) answer('listening');
    assert.equal(await late, 'CLOSED');
    assert.deepEqual(calls, ['connecting to uid-1', 'open', 'connected', 'draining uid-1']);
    assert.equal(clients.size, 0);
    await clients.connect(targetOf());
    assert.equal(opened.length, 2, 'the next one begins anew');
  });

  it('a caller whose question is out gets no connection either when its launcher died and was looked at meanwhile', async () => {
    const { clients, late } = await lateCaller();
    const early = answers.splice(0);
    isProcessAlive = false;
    const seen = { key: 'default/uid-1', socketFile: '/pods/uid-1/sock', process };
    await refuseAll(clients.inspect({ uid: 'uid-1', ...seen }));
    await refuseAll(clients.state({ ...targetOf(), ...seen }));
    await clients.close('default/uid-1', 'uid-1');
    for (const answer of early) answer('listening');
    await refuseAll(late);
    assert.equal(await late, 'CLOSED');
    assert.deepEqual(calls, ['connecting to uid-1', 'open', 'connected', 'draining uid-1']);
    assert.equal(clients.size, 0);
  });

  it('a socket that nobody asks about any more is not waited for, one that is asked about is', async () => {
    const clients = clientsOf();
    await clients.state(targetOf('uid-1'));
    await clients.state(targetOf('uid-2'));
    assert.deepEqual([...watches], ['uid-1', 'uid-2']);
    for (let minute = 0; minute < 10; minute++) {
      clock.advance(60_000);
      await clients.state(targetOf('uid-2'));
    }
    assert.deepEqual([...watches], ['uid-2']);
    assert.equal(clients.size, 1);
  });
});

describe('a look and the connection that follows from it', () => {
  const look = async (clients: LauncherClients) => {
    const state = clients.state(targetOf());
    await settle();
    for (const answer of answers.splice(0)) answer('listening');
    return state;
  };

  beforeEach(() => {
    sockets = ['/pods/uid-1/sock'];
  });

  it('the launcher is looked at once and remembered with its process', async () => {
    const clients = clientsOf();
    assert.deepEqual(await look(clients), { kind: 'ready', connected: false });
    await clients.connect(targetOf());
    assert.deepEqual(calls, ['connecting to uid-1 of process 4242', 'open what was probed', 'connected']);
    assert.equal(clock.timers, 0);
  });

  it('what was seen is let go soon when no connection follows, when the VMI is cleaned up, and when the agent leaves', async () => {
    const clients = clientsOf();
    await look(clients);
    assert.equal(pinned.size, 1);
    clock.advance(1_000);
    assert.equal(pinned.size, 0);
    await look(clients);
    await clients.close('default/uid-1', 'uid-1');
    assert.equal(pinned.size, 0);
    await look(clients);
    clients.stop();
    assert.equal(pinned.size, 0);
    await look(clients);
    assert.equal(pinned.size, 0, 'an answer that comes after the stop');
    assert.deepEqual([clock.timers, clients.size], [0, 0]);
  });

  for (const [what, end] of [
    ['the VMI is cleaned up', async (clients: LauncherClients) => clients.close('default/uid-1', 'uid-1')],
    ['the agent leaves', async (clients: LauncherClients) => clients.stop()],
  ] as const) {
    it(`what a look finds after ${what} is let go`, async () => {
      const clients = clientsOf();
      const state = clients.state(targetOf());
      await settle();
      const late = answers.splice(0);
      assert.equal(late.length, 1);
      await end(clients);
      late[0]?.('listening');
      await state;
      assert.deepEqual([pinned.size, clock.timers, clients.size], [0, 0, 0]);
    });
  }

  it('a launcher that cannot be remembered is not connected to, and its socket is let go', async () => {
    const clients = clientsOf();
    refusal = new Error('RECORD_INVALID');
    await look(clients);
    await assert.rejects(clients.connect(targetOf()), refusal);
    assert.deepEqual([pinned.size, opened.length], [0, 0]);
  });

  it('without a word of who listens the connection asks itself', async () => {
    isPeerKnown = false;
    const clients = clientsOf();
    assert.deepEqual(await look(clients), { kind: 'ready', connected: false });
    await clients.connect(targetOf());
    assert.deepEqual(calls, ['connecting to uid-1', 'open', 'connected']);
  });

  it('a socket that is there needs no watch, one that is missing is watched before it is looked for again', async () => {
    const clients = clientsOf();
    await look(clients);
    assert.equal(watches.size, 0);
    sockets = [];
    assert.equal((await clients.state(targetOf())).kind, 'not-ready');
    assert.deepEqual([...watches], ['uid-1']);
    await look(clients);
    assert.deepEqual([...watches], ['uid-1'], 'still missing');
    sockets = ['/pods/uid-1/sock'];
    await look(clients);
    assert.equal(watches.size, 0);
  });
});
