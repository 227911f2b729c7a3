import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { errorCode } from '../../../src/base/index.ts';
import {
  LauncherClients,
  type LauncherHost,
  type LauncherSubscriber,
  type OpenConnection,
} from '../../../src/launcher-client/index.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';

const peer = { pid: 4242, startTime: '1', uid: 0, gid: 0 };
const key = 'default/vm1';
const uid = 'uid-1';
const target = { key, uid, activePods: { 'pod-1': 'node1' } };

interface FakeConnection {
  closed: boolean;
  connected: boolean;
  readonly break: () => void;
}

/** Steps in the order in which they began. */
let steps: string[];
let opened: FakeConnection[];
let clients: LauncherClients;
/** Steps that do not end before they are let go on; an error ends one with a rejection. */
let held: Map<string, (error?: Error) => void>;
let holds: Set<string>;

/** Notes the step, and waits if it is held. */
function step(name: string): Promise<void> {
  steps.push(name);
  if (!holds.has(name)) return Promise.resolve();
  return new Promise((resolve, reject) => held.set(name, (error) => (error ? reject(error) : resolve())));
}

async function goOn(name: string, error?: Error): Promise<void> {
  await settle();
  const end = held.get(name);
  assert.ok(end, `${name} is under way`);
  end(error);
  await settle();
}

const host: LauncherHost = {
  findSockets: () => ['/pods/pod-1/sock'],
  hasPodDirectory: () => true,
  hasAnyPod: () => true,
  markUnresponsive: () => undefined,
  watch: () => ({ close: () => undefined }),
  probe: async () => 'refused',
  probeAndPin: async () => ({ listening: 'refused' }),
  isProcessAlive: () => false,
  open: async (address, { onDown }) => {
    await step('dial');
    const connection = {
      address,
      peer,
      connected: true,
      closed: false,
      close(): void {
        this.closed = true;
      },
      break(): void {
        this.connected = false;
        onDown(this as unknown as OpenConnection);
      },
    };
    opened.push(connection);
    return connection as unknown as OpenConnection;
  },
};

const subscriberOf = (name: string): LauncherSubscriber => ({
  onConnecting: () => step(`${name} prepares`),
  onConnected: () => step(`${name} uses it`),
  onBroken: ({ address }) => void steps.push(`${name} hears that ${address.uid} broke`),
  onDraining: (_key, drained) => step(`${name} forgets ${drained}`),
});

/** What becomes of a call. */
const endOf = (call: Promise<unknown>) =>
  call.then(
    () => 'done',
    (error: unknown) => errorCode(error) ?? String(error),
  );

beforeEach(() => {
  [steps, opened, held, holds] = [[], [], new Map(), new Set()];
  clients = new LauncherClients({ podsDir: '/pods', nodeName: 'node1' }, { host, clock: new FakeClock() });
  clients.subscribe(subscriberOf('cache'));
});

describe('the states of a launcher as they are published', () => {
  it('nothing is dialled before the subscriber has prepared, and no caller has the connection before it', async () => {
    holds = new Set(['cache prepares', 'dial', 'cache uses it']);
    const changed: string[] = [];
    clients.onChange((each) => changed.push(each));
    const connecting = clients.connect(target);
    await settle();
    assert.deepEqual(steps, ['cache prepares']);
    await goOn('cache prepares');
    assert.deepEqual(steps, ['cache prepares', 'dial']);
    await goOn('dial');
    assert.deepEqual([steps.at(-1), clients.peek(uid), changed], ['cache uses it', undefined, []]);
    await goOn('cache uses it');
    assert.equal(clients.peek(uid), await connecting);
    assert.deepEqual(changed, [key]);
  });

  it('all subscribers have answered before the next step, though one refuses; the attempt ends then, and leaves nothing', async () => {
    clients.subscribe(subscriberOf('other'));
    holds = new Set(['cache prepares', 'other prepares']);
    const end = endOf(clients.connect(target));
    await goOn('cache prepares', new Error('no room'));
    assert.equal(clients.size, 1, 'the other one still prepares');
    await goOn('other prepares');
    assert.equal(await end, 'Error: no room');
    assert.deepEqual([opened.length, clients.size], [0, 0]);
  });

  it('an attempt that fails after its caller was let go leaves nothing', async () => {
    holds = new Set(['dial']);
    const abort = new AbortController();
    const end = endOf(clients.connect(target, abort.signal));
    await settle();
    abort.abort();
    assert.deepEqual([await end, clients.size], ['ABORTED', 1]);
    await goOn('dial', new Error('no answer'));
    assert.equal(clients.size, 0);
  });

  it('a subscriber that cannot use the connection has it closed, and the next attempt begins anew', async () => {
    holds = new Set(['cache uses it']);
    const end = endOf(clients.connect(target));
    await goOn('cache uses it', new Error('no pipe'));
    assert.equal(await end, 'Error: no pipe');
    assert.deepEqual([opened[0]?.closed, clients.peek(uid)], [true, undefined]);
    holds.clear();
    await clients.connect(target);
    assert.equal(opened.length, 2);
  });

  it('a connection that broke is reported, kept, and given up when its launcher is proven to have ended', async () => {
    await clients.connect(target);
    opened[0]?.break();
    assert.equal(steps.at(-1), 'cache hears that uid-1 broke');
    assert.ok(clients.peek(uid));
    const address = { key, uid, socketFile: '/pods/pod-1/sock' };
    assert.equal((await clients.inspect(address)).kind, 'dead');
    assert.deepEqual([opened[0]?.closed, clients.peek(uid)], [true, undefined]);
  });

  it('one who unsubscribed hears nothing more', async () => {
    const end = clients.subscribe(subscriberOf('other'));
    end();
    await clients.connect(target);
    assert.ok(steps.every((each) => !each.startsWith('other')));
  });
});

describe('a clean-up', () => {
  it('waits for the attempt under way, which ends without a connection, and then lets subscribers forget', async () => {
    holds = new Set(['cache uses it']);
    const end = endOf(clients.connect(target));
    await settle();
    const draining = clients.close(key, uid);
    await settle();
    assert.equal(steps.at(-1), 'cache uses it', 'what the subscriber makes now would be left over');
    assert.equal(opened[0]?.closed, true);
    await goOn('cache uses it');
    await draining;
    assert.equal(await end, 'CLOSED');
    assert.deepEqual([steps.at(-1), clients.size], ['cache forgets uid-1', 0]);
  });

  it('before the dial ends the attempt there', async () => {
    holds = new Set(['cache prepares']);
    const end = endOf(clients.connect(target));
    await settle();
    const draining = clients.close(key, uid);
    await goOn('cache prepares');
    await draining;
    assert.equal(await end, 'CLOSED');
    assert.deepEqual(steps, ['cache prepares', 'cache forgets uid-1']);
  });

  it('lets no caller connect until it is over: its record would be written again', async () => {
    await clients.connect(target);
    holds = new Set(['cache forgets uid-1']);
    const draining = clients.close(key, uid);
    await settle();
    assert.equal(await endOf(clients.connect(target)), 'CLOSED');
    assert.equal((await clients.state(target)).kind, 'unclear');
    const again = clients.close(key, uid);
    await goOn('cache forgets uid-1');
    await Promise.all([draining, again]);
    assert.equal(steps.filter((each) => each === 'cache forgets uid-1').length, 1);
    assert.equal(await endOf(clients.connect(target)), 'done');
  });
});

describe('the agent leaves', () => {
  it('while a launcher is dialled: the connection is closed, no one gets it, and nothing is forgotten', async () => {
    holds = new Set(['dial']);
    const end = endOf(clients.connect(target));
    await settle();
    clients.stop();
    await goOn('dial');
    assert.equal(await end, 'CLOSED');
    assert.deepEqual([opened[0]?.closed, steps], [true, ['cache prepares', 'dial']]);
    assert.equal(await endOf(clients.connect(target)), 'CLOSED');
    assert.equal((await clients.state(target)).kind, 'unclear');
  });
});
