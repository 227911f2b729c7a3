import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ScreenEnd, ScreenSession, type ScreenState } from '../../../../src/web/page/screen-session.ts';
import { FakeClock, settle } from '../../../fixtures/fake-clock.ts';

class Screens {
  readonly clock = new FakeClock();
  readonly states: ScreenState[] = [];
  /** Access of each try, in order. */
  readonly tries: string[] = [];
  explanation = '';
  left = 0;
  #on: { ready: () => void; over: (end: ScreenEnd) => void } | undefined;

  readonly session = new ScreenSession({
    state: (state) => this.states.push(state),
    connect: (query, on) => {
      this.tries.push(query.get('access') ?? '');
      this.#on = on;
      return () => {
        this.left++;
      };
    },
    explain: async () => this.explanation,
    schedule: (ms, callback) => this.clock.schedule(ms, callback),
    chance: () => 1,
  });

  ready(): void {
    this.#on?.ready();
  }

  over(code: number, reason = '', hasOpened = true): void {
    this.#on?.over({ code, reason, hasOpened });
  }

  get state(): ScreenState | undefined {
    return this.states.at(-1);
  }
}

test('a screen is asked for politely: who comes second watches, and is told why', () => {
  const screens = new Screens();
  screens.session.open(false);
  screens.over(1006, '', false);
  screens.ready();
  assert.deepEqual(screens.tries, ['take-if-free', 'view']);
  assert.deepEqual(screens.state, {
    kind: 'connected',
    readOnly: true,
    reason: 'somebody else has keyboard and mouse',
  });
});

test('who takes over has keyboard and mouse; who is taken over goes on watching and does not take it back', () => {
  const screens = new Screens();
  screens.session.open(false);
  screens.ready();
  screens.over(4001, 'another session has taken over the screen');
  screens.ready();
  assert.deepEqual(screens.tries, ['take-if-free', 'view']);
  assert.deepEqual(screens.state, {
    kind: 'connected',
    readOnly: true,
    reason: 'another session has taken over the screen',
  });
  screens.session.take();
  screens.ready();
  assert.deepEqual(screens.tries.at(-1), 'take');
  assert.deepEqual(screens.state, { kind: 'connected', readOnly: false });
});

test('an agent that leaves is waited for, longer each time, until it is back', async () => {
  const screens = new Screens();
  screens.session.open(false);
  screens.ready();
  screens.over(1001, 'the agent is leaving');
  assert.deepEqual(screens.state, { kind: 'waiting', reason: 'the agent is leaving', inMs: 500 });
  await screens.clock.pass(500);
  screens.over(1006, '', false);
  screens.explanation = 'the agent cannot be reached';
  screens.over(1006, '', false);
  await settle();
  assert.deepEqual(screens.state, { kind: 'waiting', reason: 'the agent cannot be reached', inMs: 1_000 });
  await screens.clock.pass(1_000);
  screens.ready();
  assert.deepEqual(screens.state, { kind: 'connected', readOnly: false });
});

test('a VM that is gone ends it, until somebody asks', async () => {
  for (const code of [1000, 4003]) {
    const screens = new Screens();
    screens.session.open(false);
    screens.ready();
    screens.over(code, 'the VM is gone');
    assert.deepEqual(screens.state, { kind: 'ended', reason: 'the VM is gone' });
    await screens.clock.pass(60_000);
    assert.equal(screens.tries.length, 1);
    screens.session.open();
    assert.equal(screens.tries.length, 2);
  }
});

test('who wants to watch only, watches, also after the connection was lost', async () => {
  const screens = new Screens();
  screens.session.open(true);
  screens.ready();
  screens.over(1006);
  await screens.clock.pass(500);
  screens.ready();
  assert.deepEqual(screens.tries, ['view', 'view']);
  assert.deepEqual(screens.state, { kind: 'connected', readOnly: true });
});

test('a view that was left tries nothing more', async () => {
  const screens = new Screens();
  screens.session.open(false);
  screens.ready();
  screens.over(1006);
  screens.session.close();
  await screens.clock.pass(60_000);
  assert.equal(screens.tries.length, 1);
  assert.equal(screens.clock.timers, 0);
});

test('a guest that moves to another node is followed at once, as what one was, and the page says where to', () => {
  const screens = new Screens();
  screens.session.open(false);
  screens.ready();
  screens.over(4004, 'it goes on at b');
  assert.deepEqual(screens.state, { kind: 'following', reason: 'it goes on at b' });
  screens.ready();
  assert.deepEqual(screens.state, { kind: 'connected', readOnly: false });
  screens.over(4001, 'another session has taken over the screen');
  screens.ready();
  screens.over(4004, 'it goes on at a');
  screens.ready();
  assert.deepEqual(screens.tries, ['take-if-free', 'take-if-free', 'view', 'view']);
});
