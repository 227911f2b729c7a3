import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { errorCode } from '../../../src/base/index.ts';
import { LauncherClients, type LauncherHost, type OpenConnection } from '../../../src/launcher-client/index.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

const process = { pid: 4242, startTime: '1', uid: 0, gid: 0 };
const targetOf = (uid = 'uid-1') => ({ key: `default/${uid}`, uid, activePods: { [uid]: 'node1' }, nonRoot: false });

let clock: FakeClock;
let hookCalls: string[];
let sockets: string[];
let watches: Set<string>;
/** Resolves the probes that wait. */
let answers: ((listening: 'listening' | 'refused') => void)[];
let isProcessAlive: boolean;
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
    isProcessAlive: () => isProcessAlive,
    open: async (target) => {
      const connection = {
        target,
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
  return new LauncherClients(
    { podsDir: '/pods', nodeName: 'node1' },
    {
      host,
      clock,
      hooks: {
        register: async ({ uid }) => void hookCalls.push(`register ${uid}`),
        attached: async () => void hookCalls.push('attached'),
        released: async (_key, uid) => void hookCalls.push(`released ${uid}`),
      },
    },
  );
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
  [hookCalls, sockets, answers, opened, watches] = [[], [], [], [], new Set()];
  isProcessAlive = true;
});

describe('what is kept of launchers', () => {
  it('a caller that comes while the VMI is cleaned up gets no connection, and nothing is remembered again', async () => {
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
    await clients.close('default/uid-1', 'uid-1');
    for (const answer of answers.splice(0)) answer('listening');
    assert.equal(await late, 'CLOSED');
    assert.deepEqual(hookCalls, ['register uid-1', 'attached', 'released uid-1']);
    assert.equal(clients.size, 0);
    await clients.connect(targetOf());
    assert.equal(opened.length, 2, 'the next one begins anew');
  });

  it('a caller whose question is out gets no connection either when its launcher died and was looked at meanwhile', async () => {
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
    const early = answers.splice(0);
    isProcessAlive = false;
    const seen = { socketFile: '/pods/uid-1/sock', process };
    await refuseAll(clients.inspect({ uid: 'uid-1', ...seen }));
    await refuseAll(clients.state({ ...targetOf(), ...seen }));
    await clients.close('default/uid-1', 'uid-1');
    for (const answer of early) answer('listening');
    await refuseAll(late);
    assert.equal(await late, 'CLOSED');
    assert.deepEqual(hookCalls, ['register uid-1', 'attached', 'released uid-1']);
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
