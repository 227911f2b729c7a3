import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { systemClock } from '../../../src/base/index.ts';
import { PathWatch } from '../../../src/host/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

let base: string;
let watch: PathWatch;

beforeEach(() => {
  base = mkdtempSync(path.join(tmpdir(), 'path-watch-'));
  watch = new PathWatch({ recheckMs: 3_600_000 }, { clock: systemClock });
});
afterEach(() => {
  watch.close();
  rmSync(base, { recursive: true, force: true });
});

const at = (...names: string[]) => path.join(base, ...names);

function counted(file: string, kind: 'watch' | 'watchNames' = 'watch') {
  const seen = { calls: 0, end: () => {} };
  seen.end = watch[kind](file, () => seen.calls++);
  return seen;
}
const callsBecome = (seen: { calls: number }, calls: number) => eventually(() => assert.equal(seen.calls, calls));

describe('a watched path', () => {
  it('tells when its entry appears, is replaced and vanishes', async () => {
    const seen = counted(at('device'));
    writeFileSync(at('device'), '');
    await callsBecome(seen, 1);
    writeFileSync(at('other'), '');
    renameSync(at('other'), at('device'));
    await callsBecome(seen, 2);
    rmSync(at('device'));
    await callsBecome(seen, 3);
  });

  it('tells of an entry below directories that come later, go, and come again', async () => {
    const seen = counted(at('a', 'b', 'device'));
    for (let turn = 0; turn < 3; turn++) {
      mkdirSync(at('a', 'b'), { recursive: true });
      writeFileSync(at('a', 'b', 'device'), '');
      await callsBecome(seen, 2 * turn + 1);
      rmSync(at('a'), { recursive: true });
      await callsBecome(seen, 2 * turn + 2);
    }
  });

  it('is found again after its directory, or one above it, was put away and another took the place', async () => {
    const seen = counted(at('a', 'b', 'c', 'device'));
    mkdirSync(at('a', 'b', 'c'), { recursive: true });
    writeFileSync(at('a', 'b', 'c', 'device'), '');
    await callsBecome(seen, 1);
    for (const [turn, moved] of [['a', 'b', 'c'], ['a', 'b'], ['a']].entries()) {
      mkdirSync(at('new', 'a', 'b', 'c'), { recursive: true });
      renameSync(at(...moved), at(`old-${turn}`));
      renameSync(at('new', ...moved), at(...moved));
      await callsBecome(seen, 2 * turn + 2);
      // The one that is there now is watched, not the one that is gone.
      writeFileSync(at('a', 'b', 'c', 'device'), '');
      await callsBecome(seen, 2 * turn + 3);
      rmSync(at('new'), { recursive: true, force: true });
    }
  });

  it('is found again after a link on the way was made to lead elsewhere', async () => {
    for (const where of ['one', 'two']) mkdirSync(at(where, 'dir'), { recursive: true });
    symlinkSync(at('one'), at('link'));
    const seen = counted(at('link', 'dir', 'device'));
    symlinkSync(at('two'), at('next'));
    renameSync(at('next'), at('link'));
    writeFileSync(at('two', 'dir', 'device'), '');
    await callsBecome(seen, 1);
    rmSync(at('two', 'dir', 'device'));
    await callsBecome(seen, 2);
  });

  it('is not looked at for what happens beside it, however often', async () => {
    mkdirSync(at('dir'));
    const clock = new FakeClock();
    const own = new PathWatch({}, { clock });
    own.watch(at('dir', 'device'), () => undefined);
    const heard = counted(at('dir', 'neighbour-9'));
    for (let turn = 0; turn < 10; turn++) writeFileSync(at('dir', `neighbour-${turn}`), '');
    await callsBecome(heard, 1);
    assert.equal(clock.timers, 1, 'only the look that comes every 30 s');
    own.close();
  });

  it('is looked at no more often than ten times a second, whoever makes it anew without end', async () => {
    const clock = new FakeClock();
    const own = new PathWatch({}, { clock });
    let calls = 0;
    own.watch(at('device'), () => calls++);
    const lookIsDue = () => eventually(() => assert.equal(clock.timers, 2));
    writeFileSync(at('device'), '');
    await lookIsDue();
    clock.advance(5);
    assert.equal(calls, 1);
    rmSync(at('device'));
    await lookIsDue();
    clock.advance(95);
    assert.equal(calls, 1);
    clock.advance(5);
    assert.equal(calls, 2);
    own.close();
  });

  it('tells of an entry that was there between two looks only: who made it must know that it is gone', async () => {
    const clock = new FakeClock();
    const own = new PathWatch({}, { clock });
    let calls = 0;
    own.watch(at('socket'), () => calls++);
    writeFileSync(at('socket'), '');
    rmSync(at('socket'));
    await eventually(() => assert.equal(clock.timers, 2));
    clock.advance(5);
    assert.equal(calls, 1);
    own.close();
  });

  it('says nothing of content and of neighbours', async () => {
    writeFileSync(at('device'), '');
    const seen = counted(at('device'));
    const neighbour = counted(at('neighbour'));
    writeFileSync(at('device'), 'content');
    writeFileSync(at('neighbour'), '');
    await callsBecome(neighbour, 1);
    assert.equal(seen.calls, 0);
  });

  it('is the link itself, not what it points to', async () => {
    symlinkSync(at('nowhere'), at('link'));
    const seen = counted(at('link'));
    rmSync(at('link'));
    await callsBecome(seen, 1);
  });

  it('tells each listener, until it has had enough', async () => {
    const [first, second] = [counted(at('device')), counted(at('device'))];
    first.end();
    writeFileSync(at('device'), '');
    await callsBecome(second, 1);
    assert.equal(first.calls, 0);
  });

  it('is looked at again in time when the kernel says nothing', () => {
    const clock = new FakeClock();
    const slow = new PathWatch({ recheckMs: 30_000 }, { clock });
    let calls = 0;
    slow.watch(at('device'), () => calls++);
    writeFileSync(at('device'), '');
    clock.advance(29_000);
    assert.equal(calls, 0);
    clock.advance(1_000);
    assert.equal(calls, 1);
    slow.close();
    assert.equal(clock.timers, 0);
  });
});

describe('watched names', () => {
  it('tell of every name that comes or goes, and of the directory', async () => {
    const seen = counted(at('group'), 'watchNames');
    mkdirSync(at('group'));
    await callsBecome(seen, 1);
    writeFileSync(at('group', '12'), '');
    await callsBecome(seen, 2);
    writeFileSync(at('group', '12'), 'content');
    writeFileSync(at('group', '13'), '');
    await callsBecome(seen, 3);
    rmSync(at('group'), { recursive: true });
    await eventually(() => assert.ok(seen.calls > 3));
  });
});

it('a closed watch calls nobody and keeps no timer', async () => {
  const clock = new FakeClock();
  const closed = new PathWatch({}, { clock });
  closed.watch(at('device'), () => assert.fail('called'));
  closed.close();
  closed.watch(at('device'), () => assert.fail('called'))();
  writeFileSync(at('device'), '');
  clock.advance(60_000);
  assert.equal(clock.timers, 0);
});
