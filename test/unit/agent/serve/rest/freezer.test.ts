import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { VmiEvent } from '../../../../../src/agent/index.ts';
import { Freezer } from '../../../../../src/agent/serve/rest/freezer.ts';
import type { LauncherCommands } from '../../../../../src/agent/serve/rest/index.ts';
import { CodedError, silentLogger } from '../../../../../src/base/index.ts';
import { uid, vmiOf } from '../../../../fixtures/agent/builders.ts';
import { FakeClock, settle } from '../../../../fixtures/fake-clock.ts';

interface PendingCall {
  readonly name: string;
  done(): Promise<void>;
  fail(error: Error): Promise<void>;
}

async function settledAfter(act: () => void): Promise<void> {
  act();
  await settle();
}

/** A launcher whose calls end when the test says so. */
class Launcher {
  readonly calls: PendingCall[] = [];
  isGone = false;

  async connect(): Promise<LauncherCommands> {
    if (this.isGone) throw new Error('no launcher');
    const call = (name: string) =>
      new Promise<void>((resolve, reject) => {
        this.calls.push({
          name,
          done: () => settledAfter(resolve),
          fail: (error) => settledAfter(() => reject(error)),
        });
      });
    const commands: Pick<LauncherCommands, 'freeze' | 'unfreeze'> = {
      freeze: (seconds) => call(`freeze ${seconds}`),
      unfreeze: () => call('unfreeze'),
    };
    return commands as LauncherCommands;
  }

  get names(): string[] {
    return this.calls.map(({ name }) => name);
  }

  get last(): PendingCall {
    const last = this.calls.at(-1);
    assert.ok(last);
    return last;
  }
}

const unfreezeAfterMs = 20_000;
const vmi = vmiOf('Running');
let clock: FakeClock;
let launcher: Launcher;
let events: VmiEvent[];
let leaving: AbortController;
let freezer: Freezer;

beforeEach(() => {
  clock = new FakeClock();
  launcher = new Launcher();
  events = [];
  leaving = new AbortController();
  freezer = new Freezer(
    { unfreezeAfterMs, unfreezeTries: 3 },
    {
      actions: { connect: () => launcher.connect() },
      events: { record: (of, event) => void (of.metadata.uid === uid && events.push(event)) },
      leaving: leaving.signal,
      clock,
      log: silentLogger,
    },
  );
});

/** A client that asks; what became of it for him, or `waiting`. */
function ask(seconds = 60): { readonly answer: () => string; leave(): Promise<void> } {
  const client = new AbortController();
  let answer = 'waiting';
  freezer.freeze(vmi, seconds, client.signal).then(
    () => {
      answer = 'done';
    },
    (error: Error) => {
      answer = error.message;
    },
  );
  return { answer: () => answer, leave: () => settledAfter(() => client.abort()) };
}

test('a guest that is frozen while its client waits stays frozen', async () => {
  const client = ask();
  await settle();
  await launcher.last.done();
  assert.equal(client.answer(), 'done');
  await clock.pass(10 * unfreezeAfterMs);
  assert.deepEqual([launcher.names, freezer.size, clock.timers], [['freeze 60'], 0, 0]);
});

test('a client that leaves does not end the call; who asks again joins it', async () => {
  const first = ask();
  await settle();
  await first.leave();
  const second = ask();
  await settle();
  assert.deepEqual(launcher.names, ['freeze 60']);
  await launcher.last.done();
  assert.equal(second.answer(), 'done');
  await clock.pass(10 * unfreezeAfterMs);
  assert.deepEqual([launcher.names, freezer.size], [['freeze 60'], 0]);
});

test('a guest whose client has left is unfrozen after a while, and an event says so', async () => {
  const client = ask();
  await settle();
  await client.leave();
  await launcher.last.done();
  await clock.pass(unfreezeAfterMs - 1);
  assert.deepEqual(launcher.names, ['freeze 60']);
  await clock.pass(1);
  assert.deepEqual(launcher.names, ['freeze 60', 'unfreeze']);
  await launcher.last.done();
  assert.deepEqual(
    events.map(({ type, reason }) => [type, reason]),
    [['Warning', 'FreezeError']],
  );
  assert.deepEqual([freezer.size, clock.timers], [0, 0]);
});

test('who asks again in that time finds it frozen, and it stays so', async () => {
  const first = ask();
  await settle();
  await first.leave();
  await launcher.last.done();
  await clock.pass(unfreezeAfterMs / 2);
  const second = ask();
  await settle();
  await launcher.last.done();
  assert.equal(second.answer(), 'done');
  await clock.pass(10 * unfreezeAfterMs);
  assert.deepEqual([launcher.names, freezer.size], [['freeze 60', 'freeze 60'], 0]);
});

test('a retry that is refused leaves the earlier freeze to be unfrozen', async () => {
  const first = ask();
  await settle();
  await first.leave();
  await launcher.last.done();
  const second = ask();
  await settle();
  await launcher.last.fail(new CodedError('COMMAND_FAILED', 'fsfreeze is limited'));
  assert.equal(second.answer(), 'fsfreeze is limited');
  await clock.pass(unfreezeAfterMs);
  assert.deepEqual(launcher.names, ['freeze 60', 'freeze 60', 'unfreeze']);
});

test('a freeze that comes while the guest is being unfrozen waits for the unfreeze: else it would be undone', async () => {
  const first = ask();
  await settle();
  await first.leave();
  await launcher.last.done();
  await clock.pass(unfreezeAfterMs);
  const second = ask();
  await settle();
  assert.deepEqual(launcher.names, ['freeze 60', 'unfreeze']);
  await launcher.last.done();
  assert.deepEqual(launcher.names, ['freeze 60', 'unfreeze', 'freeze 60']);
  await launcher.last.done();
  assert.equal(second.answer(), 'done');
  await clock.pass(10 * unfreezeAfterMs);
  assert.deepEqual([launcher.names.length, freezer.size], [3, 0]);
});

test('an explicit unfreeze in that time leaves nothing to unfreeze', async () => {
  const first = ask();
  await settle();
  await first.leave();
  await launcher.last.done();
  const unfrozen = freezer.unfreeze(vmi, new AbortController().signal);
  await settle();
  await launcher.last.done();
  await unfrozen;
  await clock.pass(10 * unfreezeAfterMs);
  assert.deepEqual([launcher.names, freezer.size, clock.timers], [['freeze 60', 'unfreeze'], 0, 0]);
});

test('a freeze without an answer may be carried out yet: the guest is unfrozen, since its client got a failure', async () => {
  const client = ask();
  await settle();
  await launcher.last.fail(new CodedError('TIMEOUT', 'no answer'));
  assert.equal(client.answer(), 'no answer');
  await clock.pass(unfreezeAfterMs);
  assert.deepEqual(launcher.names, ['freeze 60', 'unfreeze']);
});

test('an unfreeze that fails is tried again, a few times', async () => {
  const client = ask();
  await settle();
  await client.leave();
  await launcher.last.done();
  for (let attempt = 0; attempt < 3; attempt++) {
    await clock.pass(unfreezeAfterMs);
    await launcher.last.fail(new Error('busy'));
  }
  await clock.pass(10 * unfreezeAfterMs);
  assert.deepEqual(launcher.names, ['freeze 60', 'unfreeze', 'unfreeze', 'unfreeze']);
  assert.deepEqual([freezer.size, clock.timers], [0, 0]);
});

test('other limits are other calls; the guest stays frozen while one of them was waited for', async () => {
  const first = ask(60);
  const second = ask(300);
  await settle();
  await first.leave();
  const [sixty, threeHundred] = launcher.calls;
  await sixty?.done();
  await threeHundred?.done();
  assert.equal(second.answer(), 'done');
  await clock.pass(10 * unfreezeAfterMs);
  assert.deepEqual([launcher.names, freezer.size], [['freeze 60', 'freeze 300'], 0]);
});

test('an agent that leaves unfreezes what no client will unfreeze', async () => {
  const client = ask();
  await settle();
  await client.leave();
  await launcher.last.done();
  leaving.abort();
  const stopped = freezer.stop(new AbortController().signal);
  await settle();
  assert.deepEqual(launcher.names, ['freeze 60', 'unfreeze']);
  await launcher.last.done();
  await stopped;
  assert.deepEqual([freezer.size, clock.timers], [0, 0]);
});

test('without a launcher the freeze fails, is told, and leaves nothing behind', async () => {
  launcher.isGone = true;
  const client = ask();
  await settle();
  assert.equal(client.answer(), 'no launcher');
  assert.deepEqual(
    events.map(({ reason }) => reason),
    ['FreezeError'],
  );
  assert.deepEqual([freezer.size, clock.timers], [0, 0]);
});
