import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HookContext, HostHook } from '../../../../../../src/agent/index.ts';
import { HostError, type HostWorkFacts } from '../../../../../../src/agent/vmi/host/index.ts';
import { uid } from '../../../../../fixtures/agent/builders.ts';
import { memoryFiles, prepared, quietHook } from '../../../../../fixtures/agent/host-hooks.ts';
import { FakeClock, settle } from '../../../../../fixtures/fake-clock.ts';
import { Machine, release, requestOf, shownParts, workOf } from './bench.ts';

const failing = (name: string, error: unknown): HostHook => ({
  name,
  prepare: async () => {
    throw error;
  },
});

test('hooks prepare in their order, each with a line of its own; the first that fails ends it', async () => {
  const called: string[] = [];
  const hook = (name: string): HostHook => ({
    name,
    prepare: async ({ purpose }) => {
      called.push(`${name} ${purpose}`);
      return { kind: 'done', facts: null, summary: `${name} gave` };
    },
  });
  const error = new HostError('NO_HYPERVISOR', 'no /dev/kvm');
  const work = workOf([hook('a'), hook('b'), failing('c', error), hook('d')], memoryFiles());
  const end = await work.run(requestOf({ purpose: 'incoming' }));
  assert.deepEqual(called, ['a incoming', 'b incoming']);
  assert.equal(end.kind === 'failed' && end.error, error);
  assert.deepEqual(
    end.parts.map(({ tookMs: _took, ...part }) => part),
    [
      { name: 'a', outcome: 'done', gave: 'a gave' },
      { name: 'b', outcome: 'done', gave: 'b gave' },
      { name: 'c', outcome: 'failed', because: 'NO_HYPERVISOR: no /dev/kvm' },
    ],
  );
});

test('a hook that waits says for how long and why, and those after it are not called', async () => {
  const waits: HostHook = {
    name: 'a',
    prepare: async () => ({ kind: 'wait', afterMs: 700, because: 'no socket yet' }),
  };
  const work = workOf([waits, failing('b', new Error('called'))], memoryFiles());
  const end = await work.run(requestOf());
  assert.equal(end.kind === 'wait' && end.afterMs, 700);
  assert.deepEqual(shownParts(end), ['a waits']);
});

test('each hook has its own deadline; one that heeds no signal is given up, and not called again before it has ended', async () => {
  const clock = new FakeClock();
  let end = () => {};
  let calls = 0;
  const hangs: HostHook = {
    name: 'hangs',
    deadlineMs: 5_000,
    prepare: () => {
      calls++;
      return new Promise((resolve) => {
        end = () => resolve(prepared);
      });
    },
  };
  const work = workOf([hangs], memoryFiles(), clock);
  assert.equal(workOf([hangs, quietHook('slow', [])], memoryFiles(), clock).budgetMs, 45_000);
  const first = work.run(requestOf());
  await clock.pass(4_999);
  assert.equal(calls, 1);
  await clock.pass(2);
  const late = await first;
  assert.match(late.parts[0]?.because ?? '', /^HOOK_TIMEOUT: hangs has not ended within 5 s/);
  const busy = await work.run(requestOf());
  assert.match(busy.parts[0]?.because ?? '', /^HOOK_BUSY: hangs was given up/);
  assert.match(
    (await release(workOf([{ ...hangs, release: async () => undefined }], memoryFiles(), clock))).kind,
    /done/,
  );
  assert.equal(calls, 1);
  end();
  await settle();
  void work.run(requestOf());
  await settle();
  assert.equal(calls, 2);
  end();
});

test('a hook that was given up saves nothing any more', async () => {
  const clock = new FakeClock();
  const files = memoryFiles();
  let saving: Promise<void> | undefined;
  let goOn = () => {};
  const hook: HostHook = {
    name: 'late',
    deadlineMs: 1_000,
    readState: () => 1,
    prepare: async ({ state }) => {
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
      saving = state.save({ mounted: true });
      await saving;
      return prepared;
    },
  };
  const running = workOf([hook], files, clock).run(requestOf());
  await clock.pass(1_001);
  assert.equal((await running).kind, 'failed');
  goOn();
  await settle();
  await assert.rejects(saving ?? Promise.resolve(), /was given up/);
  assert.equal(files.files.size, 0);
});

test('events of hooks are told once per UID, also when a later hook fails', async () => {
  const event = { type: 'Normal', reason: 'ToleratedSmallPV', message: 'smaller' } as const;
  const tells: HostHook = { name: 'tells', prepare: async () => ({ kind: 'done', facts: null, events: [event] }) };
  const work = workOf([tells, failing('fails', new Error('busy'))], memoryFiles());
  assert.deepEqual((await work.run(requestOf())).events, [event]);
  assert.deepEqual((await work.run(requestOf())).events, []);
  assert.deepEqual((await work.run(requestOf({ uid: 'other' }))).events, [event]);
});

test('all hooks are released in reverse order, even if one fails, and only those again that have not been', async () => {
  const released: string[] = [];
  let fails = true;
  const stubborn: HostHook = {
    name: 'b',
    prepare: async () => prepared,
    release: async ({ stage }) => {
      released.push(`b ${stage}`);
      if (fails) throw new Error('umount: target is busy');
    },
  };
  const files = memoryFiles();
  const work = workOf([quietHook('a', released), stubborn, quietHook('c', released)], files);
  await work.run(requestOf());
  assert.deepEqual(shownParts(await release(work)), ['c done', 'b failed', 'a done']);
  assert.deepEqual(released, [`c ${uid}`, 'b done', `a ${uid}`]);
  assert.deepEqual(Object.keys(JSON.parse(files.files.get(uid) ?? '{}').hooks), ['b']);
  fails = false;
  assert.equal((await release(work)).kind, 'done');
  assert.equal(files.files.size, 0);
  assert.equal((await release(work)).kind, 'done', 'twice is safe');
});

test('facts are known to the next process, and go with the release', async () => {
  const files = memoryFiles();
  const machine = new Machine();
  const hook = { ...machine.mountHook('a'), syncOptions: () => ({ preallocatedVolumes: ['root'] }) };
  await workOf([hook], files).run(requestOf());
  const next = workOf([hook], files);
  assert.deepEqual(next.syncOptions(uid), []);
  await next.start();
  assert.deepEqual(next.facts(uid), { a: { token: 1 } });
  assert.deepEqual(next.syncOptions(uid), [{ preallocatedVolumes: ['root'] }]);
  await release(next);
  assert.deepEqual(next.facts(uid), {});
  assert.deepEqual([...machine.mounts], []);
});

test('a running domain is adjusted, by those hooks that can', async () => {
  const called: string[] = [];
  const adjusts: HostHook = {
    ...quietHook('a', []),
    adjust: async ({ purpose, state }: HookContext) => {
      called.push(`${purpose} ${state.stage}`);
      return { kind: 'done', facts: 2 };
    },
  };
  const work = workOf([adjusts, quietHook('b', [])], memoryFiles());
  await work.run(requestOf());
  const end = await work.run(requestOf({ purpose: 'running' }));
  assert.deepEqual(called, ['running done']);
  assert.deepEqual(shownParts(end), ['a done']);
  assert.deepEqual(work.facts(uid), { a: 2, b: null });
});

test('what hooks see is put together; one that throws or hangs sees nothing and fails nothing', async () => {
  const clock = new FakeClock();
  const sees = (name: string, volumes: readonly string[]): HostHook => ({
    name,
    prepare: async () => prepared,
    observe: async () => ({ mountedVolumes: volumes }),
  });
  const throwing: HostHook = {
    ...sees('throws', []),
    observe: async () => {
      throw new Error('no such process');
    },
  };
  const hanging: HostHook = { ...sees('hangs', []), observe: () => new Promise(() => undefined) };
  const { vmi, launcherPid, signal } = requestOf();
  const view = { uid, vmi, launcherPid, signal };
  const work = workOf([throwing, hanging, sees('a', ['one']), sees('b', ['two'])], memoryFiles(), clock);
  const seeing = work.observe(view);
  await clock.pass(1_001);
  assert.deepEqual(await seeing, { mountedVolumes: ['one', 'two'] });
  assert.deepEqual(await workOf([throwing], memoryFiles()).observe(view), {}, 'not seen is not "none"');
});

test('who has nothing to see of a VMI is not asked, by what was given to it', async () => {
  const seeing = (name: string, mayObserve: HostHook['mayObserve']): HostHook => ({
    name,
    prepare: async () => ({ kind: 'done', facts: { volumes: ['one'] } }),
    observe: async () => ({ mountedVolumes: [name] }),
    ...(mayObserve && { mayObserve }),
  });
  const request = requestOf();
  const byFacts = seeing('by-facts', ({ facts }) => facts !== undefined);
  const work = workOf([seeing('never', () => false), byFacts], memoryFiles());
  assert.equal(work.mayObserve(request), false);
  assert.deepEqual(await work.observe(request), {});
  await work.run(request);
  assert.equal(work.mayObserve(request), true);
  assert.deepEqual(await work.observe(request), { mountedVolumes: ['by-facts'] });
  assert.equal(workOf([seeing('always', undefined)], memoryFiles()).mayObserve(request), true);
});

test('the facts of this build have the types of their hooks', () => {
  const facts: HostWorkFacts = {
    'device-ownership': { devices: ['/dev/kvm'] },
    'host-disk-images': { images: [{ volume: 'data', sizeBytes: 1, wantedBytes: 2 }] },
  };
  // @ts-expect-error a hook that gives no facts has none
  assert.equal(facts['unsupported-host-work'], undefined);
  // @ts-expect-error devices are paths
  assert.ok({ 'device-ownership': { devices: [1] } } satisfies HostWorkFacts);
});

test('a start writes no checkpoint for a hook that leaves nothing of this VMI, and its release is called all the same', async () => {
  const released: string[] = [];
  const leavesWhen = (leaves: boolean): HostHook => ({ ...quietHook('a', released), leaves: () => leaves });
  const files = memoryFiles();
  await workOf([leavesWhen(false)], files).run(requestOf());
  assert.deepEqual([...files.files.keys()], []);
  await release(workOf([leavesWhen(false)], files));
  assert.deepEqual(released, [`a ${uid}`]);
  await workOf([leavesWhen(true)], files).run(requestOf());
  assert.deepEqual([...files.files.keys()], [uid]);
});

test('hooks settle after a sync, those that have something to settle, and their facts replace the earlier ones', async () => {
  const called: string[] = [];
  const settles: HostHook = {
    name: 'a',
    prepare: async () => ({ kind: 'done', facts: { count: 2 } }),
    settle: async ({ purpose }) => {
      called.push(purpose);
      return { kind: 'done', facts: { count: 1 } };
    },
    readFacts: (kept) => kept as never,
  };
  const work = workOf([settles, { name: 'b', prepare: async () => prepared }], memoryFiles());
  await work.run(requestOf());
  const end = await work.run(requestOf({ purpose: 'settling' }));
  assert.deepEqual(shownParts(end), ['a done']);
  assert.deepEqual(called, ['settling']);
  assert.deepEqual(work.facts(uid), { a: { count: 1 }, b: null });
});

test('of a hook that leaves nothing and saves all the same, what it gave is kept too', async () => {
  const files = memoryFiles();
  const saves: HostHook = {
    name: 'saves',
    leaves: () => false,
    prepare: async ({ state }) => {
      await state.save({ mounts: true });
      return { kind: 'done', facts: { mounted: ['root'] } };
    },
    release: async () => undefined,
  };
  await workOf([saves], files).run(requestOf());
  const kept = JSON.parse(files.files.get(uid) ?? '{}').hooks;
  assert.deepEqual(kept, { saves: { stage: 'done', state: { mounts: true }, facts: { mounted: ['root'] } } });
});

test('all hooks settle, even if one fails: a guest may be paused until another one has', async () => {
  const settled: string[] = [];
  const error = new HostError('MOUNT_TARGET', 'it stays mounted');
  const settling = (name: string, fails: boolean): HostHook => ({
    ...failing(name, error),
    settle: async () => {
      settled.push(name);
      if (fails) throw error;
      return prepared;
    },
  });
  const work = workOf([settling('a', true), settling('b', false)], memoryFiles());
  const end = await work.run(requestOf({ purpose: 'settling' }));
  assert.equal(end.kind === 'failed' && end.error, error);
  assert.deepEqual(
    [settled, shownParts(end)],
    [
      ['a', 'b'],
      ['a failed', 'b done'],
    ],
  );
});
